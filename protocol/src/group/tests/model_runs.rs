//! Random lives of members against the model of a coordinator: no partition is owned twice, all are owned when it is quiet.

use proptest::prelude::*;

use super::super::assignor::Assignor;
use super::coordinator_model::{Coordinator, PARTITIONS};
use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    Leave(prop::sample::Index),
    Crash(prop::sample::Index),
    /// The member's next answer gets lost, after the coordinator has acted.
    LoseAnswer(prop::sample::Index),
    /// The member's requests do not arrive for so many seconds.
    CutOff(prop::sample::Index, u8),
    Seconds(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let step = prop_oneof![
        3 => Just(Step::Join),
        1 => index().prop_map(Step::Leave),
        1 => index().prop_map(Step::Crash),
        1 => index().prop_map(Step::LoseAnswer),
        1 => (index(), 1..20_u8).prop_map(|(index, seconds)| Step::CutOff(index, seconds)),
        4 => (0..15_u8).prop_map(Step::Seconds),
    ];
    proptest::collection::vec(step, 1..25)
}

struct Live {
    number: usize,
    member: GroupMember,
    loses_answer: bool,
    cut_off_until: Timestamp,
    /// When the user lets go of what is revoked.
    lets_go_at: Option<Timestamp>,
}

struct World {
    now: Timestamp,
    config: GroupConfig,
    coordinator: Coordinator,
    members: Vec<Live>,
    joined: usize,
    checks: usize,
}

impl World {
    fn new(assignor: Assignor, double_assign: bool) -> Self {
        let config = GroupConfig {
            assignors: vec![assignor],
            session_timeout: 10 * SECOND,
            heartbeat_interval: SECOND,
            max_poll_interval: 20 * SECOND,
            ..config()
        };
        Self {
            now: Timestamp::from_micros(1),
            coordinator: Coordinator::new(assignor, &config, double_assign),
            config,
            members: Vec::new(),
            joined: 0,
            checks: 0,
        }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let alive = self.members.len();
        match step {
            Step::Join if alive < 5 => {
                let seed = u64::try_from(self.joined).unwrap();
                let mut member = GroupMember::classic(self.config.clone(), seed);
                member.subscribe(self.now, topics(&["t"]));
                self.members.push(Live {
                    number: self.joined,
                    member,
                    loses_answer: false,
                    cut_off_until: Timestamp::ZERO,
                    lets_go_at: None,
                });
                self.joined += 1;
            }
            Step::Leave(index) if alive > 0 => {
                let live = &mut self.members[index.index(alive)];
                live.member.leave(self.now);
                self.settle()?;
                self.members.retain(|live| {
                    !live.member.owned().is_empty() || live.member.poll_timeout().is_some()
                });
            }
            Step::Crash(index) if alive > 0 => drop(self.members.remove(index.index(alive))),
            Step::LoseAnswer(index) if alive > 0 => {
                self.members[index.index(alive)].loses_answer = true;
            }
            Step::CutOff(index, seconds) if alive > 0 => {
                let until = self.now.after(u32::from(seconds) * SECOND);
                self.members[index.index(alive)].cut_off_until = until;
            }
            Step::Seconds(seconds) => self.pass(u32::from(seconds) * SECOND)?,
            _ => {}
        }
        self.settle()
    }

    fn pass(&mut self, time: Duration) -> Result<(), TestCaseError> {
        let end = self.now.after(time);
        while self.now < end {
            self.now = self.now.after(SECOND / 10);
            self.settle()?;
        }
        Ok(())
    }

    /// Carries requests and answers until nothing moves, and checks after each.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let now = self.now;
        for live in &mut self.members {
            if live.member.poll_timeout().is_some_and(|at| at <= now) {
                live.member.handle_timeout(now);
            }
        }
        self.coordinator.pass(now);
        for turn in 0.. {
            assert!(turn < 1000, "no end");
            let mut moved = self.deliver();
            for index in 0..self.members.len() {
                moved |= self.turn(index);
            }
            self.check()?;
            if !moved {
                return Ok(());
            }
        }
        Ok(())
    }

    fn turn(&mut self, index: usize) -> bool {
        let now = self.now;
        let live = &mut self.members[index];
        let mut moved = false;
        if live.member.awaits_topics() {
            live.member.handle_topics(now, known(PARTITIONS));
            moved = true;
        }
        while let Some(event) = live.member.poll_event() {
            moved = true;
            if matches!(event, GroupEvent::Revoked(_)) {
                live.lets_go_at = Some(now.after(SECOND / 2));
            }
        }
        if live.lets_go_at.is_some_and(|at| at <= now) {
            live.lets_go_at = None;
            live.member.acknowledge_revoked(now);
            moved = true;
        }
        while let Some(sent) = live.member.poll_request(now) {
            moved = true;
            if live.cut_off_until > now {
                live.member.handle_response(now, sent.token, Err(lost_answer()));
            } else {
                self.coordinator.request(now, (live.number, sent.token), sent.request);
            }
        }
        moved
    }

    fn deliver(&mut self) -> bool {
        let answers = self.coordinator.take_answers();
        let moved = !answers.is_empty();
        for ((number, token), response) in answers {
            let Some(live) = self.members.iter_mut().find(|live| live.number == number) else {
                continue;
            };
            let lost = std::mem::take(&mut live.loses_answer) || live.cut_off_until > self.now;
            let result = if lost { Err(lost_answer()) } else { Ok(response) };
            live.member.handle_response(self.now, token, result);
        }
        moved
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let mut owners: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
        for live in &self.members {
            for tp in live.member.owned() {
                let other = owners.insert(tp, live.number);
                prop_assert_eq!(other, None, "{} is owned by {} too", tp, live.number);
                self.checks += 1;
            }
        }
        Ok(())
    }

    fn all_owned(&self) -> bool {
        let owned: BTreeSet<_> = self.members.iter().flat_map(|live| live.member.owned()).collect();
        owned.len() == usize::try_from(PARTITIONS).unwrap()
    }
}

fn run(assignor: Assignor, steps: &[Step], double_assign: bool) -> Result<usize, TestCaseError> {
    let mut world = World::new(assignor, double_assign);
    for step in steps {
        world.take(*step)?;
    }
    // Quiet for longer than a session and a rebalance that waits for the dead.
    world.take(Step::Join)?;
    world.pass(60 * SECOND)?;
    prop_assert!(world.all_owned(), "not all partitions are owned when it is quiet");
    Ok(world.checks)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_partition_is_owned_twice_and_all_are_owned_when_it_is_quiet(
        steps in steps(),
        assignor in prop::sample::select(&Assignor::ALL[..]),
    ) {
        prop_assert!(run(assignor, &steps, false)? > 0);
    }
}

/// The mutant: partitions are given to their new owner before the old one has let go.
#[test]
fn the_model_notices_a_coordinator_that_does_not_wait_until_partitions_are_free() {
    let steps = [Step::Join, Step::Seconds(5), Step::Join, Step::Seconds(5)];
    assert!(run(Assignor::CooperativeSticky, &steps, false).is_ok());
    let noticed = run(Assignor::CooperativeSticky, &steps, true).unwrap_err();
    assert!(noticed.to_string().contains("is owned by"), "{noticed}");
}
