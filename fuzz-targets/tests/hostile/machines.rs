//! Producers, group members and fetchers, whose every second answer is spoiled. Each must come to an end of what it was asked, and
//! none may ask for work without end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_fuzz_targets::Random;
use millstream_protocol::fetch::{FetchConfig, FetchEvent, FetchStart, Fetcher};
use millstream_protocol::group::offsets::OffsetAndMetadata;
use millstream_protocol::group::{GroupConfig, GroupEvent, GroupMember, MemberIdentity, TopicInfo};
use millstream_protocol::network::{OutgoingRequest, RequestError};
use millstream_protocol::producer::{Producer, ProducerConfig, ProducerEvent};
use millstream_protocol::records::{BatchBuilder, Compression, DecodeLimits, SealedBatch};
use millstream_protocol::transaction::GroupOffsets;
use millstream_protocol::{Response, StaleMetadata, Timestamp, TopicPartition};

use crate::frames::{number, seed};
use crate::lab::{Lab, golden_answers};

/// Lives of machines; `MILLSTREAM_HOSTILE_LIVES` sets another number.
#[test]
fn machines_live_on_among_hostile_answers() {
    let seed = seed("machines_live_on_among_hostile_answers");
    let golden = golden_answers();
    let mut lab = Lab::new(&golden, seed, false);
    lab.attentive = true;
    lab.one_in = 2;
    let mut lives = BTreeMap::new();
    for life in 0..number("MILLSTREAM_HOSTILE_LIVES", 600) {
        // Epochs that a lie has pushed up would hide honest leaders.
        lab.client.untrack_topic("t");
        lab.client.track_topic(lab.now, &Arc::from("t"));
        lab.learn();
        let name = match life % 6 {
            0 => produce(&mut lab, Some("tx"), 0),
            1 => produce(&mut lab, Some("tx"), 2),
            2 => produce(&mut lab, None, 2),
            3 => join(&mut lab, true),
            4 => join(&mut lab, false),
            _ => fetch(&mut lab),
        };
        *lives.entry(name).or_insert(0) += 1;
    }
    println!("{} hostile frames in {lives:?}", lab.frames);
    assert!(lab.frames > 2 * lives.values().sum::<u64>(), "few answers were spoiled");
}

/// What machines have in common.
trait Machine {
    fn request(&mut self, lab: &Lab) -> Option<OutgoingRequest>;
    fn response(
        &mut self,
        lab: &Lab,
        request: &OutgoingRequest,
        version: i16,
        result: Result<Response, RequestError>,
    );
    /// Takes events; true if there were any.
    fn events(&mut self, lab: &mut Lab) -> bool;
    /// The moment that it waits for, if it does.
    fn timeout(&self) -> Option<Timestamp>;
    /// That moment has come.
    fn time_came(&mut self, now: Timestamp);
}

/// Runs a machine for some turns, or until it waits for its user.
fn run(machine: &mut impl Machine, lab: &mut Lab, turns: usize) {
    for _ in 0..turns {
        let mut asked = 0;
        while let Some(request) = machine.request(lab) {
            asked += 1;
            assert!(asked < 100, "requests without end: {request:?}");
            let (version, result) = lab.exchange(request.clone());
            machine.response(lab, &request, version, result);
        }
        let told = machine.events(lab);
        if asked == 0 && !told {
            let Some(at) = machine.timeout() else { return };
            lab.now = lab.now.max(at);
            machine.time_came(lab.now);
        }
    }
}

struct Producing {
    producer: Producer,
    told: u64,
}

impl Machine for Producing {
    fn request(&mut self, lab: &Lab) -> Option<OutgoingRequest> {
        self.producer.poll_request(lab.now, lab.client.metadata())
    }

    fn response(
        &mut self,
        lab: &Lab,
        request: &OutgoingRequest,
        version: i16,
        result: Result<Response, RequestError>,
    ) {
        self.producer.handle_response(lab.now, request.token, version, result);
    }

    fn events(&mut self, lab: &mut Lab) -> bool {
        let before = self.told;
        while let Some(event) = self.producer.poll_event() {
            self.told += u64::from(event != ProducerEvent::Capacity);
        }
        while let Some(stale) = self.producer.poll_stale_metadata() {
            renew(lab, stale);
        }
        self.told > before
    }

    fn timeout(&self) -> Option<Timestamp> {
        self.producer.poll_timeout()
    }

    fn time_came(&mut self, now: Timestamp) {
        self.producer.handle_timeout(now);
    }
}

fn produce(lab: &mut Lab, transactional_id: Option<&str>, transaction_version: i16) -> String {
    let mut config = ProducerConfig::new(transactional_id.map(Arc::from));
    config.delivery_timeout = Duration::from_secs(5);
    config.transaction.max_block = Duration::from_secs(5);
    let mut machine = Producing { producer: Producer::new(config, lab.random.number()), told: 0 };
    machine.producer.set_transaction_version(transaction_version);
    for tag in 0..4 {
        for _ in 0..6 {
            let producer = &mut machine.producer;
            let transactional = transactional_id.is_some();
            match lab.random.below(8) {
                0 if transactional => producer.init_transactions(lab.now),
                1 if transactional => drop(producer.begin_transaction(lab.now, tag)),
                2 if transactional => {
                    producer.send_offsets_to_transaction(lab.now, offsets());
                }
                3 if transactional => {
                    producer.commit_transaction(lab.now, Duration::from_secs(5));
                }
                4 if transactional => producer.abort_transaction(lab.now),
                5 => producer.flush(lab.now, tag),
                6 if transactional && producer.needs_bump() => producer.bump_epoch(lab.now),
                _ => {
                    let partition = i32::from(lab.random.one_in(2));
                    let batch = batch(&mut lab.random);
                    producer.send_batch(lab.now, key(partition), batch, tag);
                }
            }
            run(&mut machine, lab, 40);
        }
        if transactional_id.is_some() {
            // Whatever happened: the next life of the same id begins here.
            machine.producer.init_transactions(lab.now);
            run(&mut machine, lab, 400);
            assert!(machine.told > 0, "a verb without an end");
        }
    }
    format!("producer {transactional_id:?} {transaction_version}")
}

fn batch(random: &mut Random) -> SealedBatch {
    let codec = Compression::ALL[random.below(Compression::ALL.len())];
    let mut builder = BatchBuilder::new(codec, 1 << 16);
    for _ in 0..=random.below(3) {
        builder.append(1, Some(b"k"), Some(b"value"), &[]).expect("a small record");
    }
    builder.build().expect("a batch").expect("with records")
}

fn offsets() -> GroupOffsets {
    GroupOffsets {
        group_id: Arc::from("g"),
        member: MemberIdentity {
            member_id: Arc::from("m"),
            generation_or_epoch: 1,
            group_instance_id: None,
        },
        offsets: [(key(0), OffsetAndMetadata::new(7, -1))].into(),
    }
}

struct Membership {
    member: GroupMember,
    failed: bool,
}

impl Machine for Membership {
    fn request(&mut self, lab: &Lab) -> Option<OutgoingRequest> {
        self.member.poll_request(lab.now)
    }

    fn response(
        &mut self,
        lab: &Lab,
        request: &OutgoingRequest,
        _: i16,
        result: Result<Response, RequestError>,
    ) {
        self.member.handle_response(lab.now, request.token, result);
    }

    fn events(&mut self, lab: &mut Lab) -> bool {
        let mut told = false;
        while let Some(event) = self.member.poll_event() {
            told = true;
            match event {
                GroupEvent::Revoked(_) => self.member.acknowledge_revoked(lab.now),
                GroupEvent::Failed(_) => self.failed = true,
                GroupEvent::Assigned(_) | GroupEvent::Lost(_) | GroupEvent::Left => {}
            }
        }
        if self.member.awaits_topics() {
            told = true;
            let info = TopicInfo { partitions: 2, topic_id: [7; 16] };
            let topics = self.member.topics().into_iter().map(|topic| (topic, info)).collect();
            self.member.handle_topics(lab.now, topics);
        }
        told
    }

    fn timeout(&self) -> Option<Timestamp> {
        self.member.poll_timeout().filter(|_| !self.failed)
    }

    fn time_came(&mut self, now: Timestamp) {
        self.member.handle_poll(now);
        self.member.handle_timeout(now);
    }
}

fn join(lab: &mut Lab, classic: bool) -> String {
    let config = GroupConfig::new(Arc::from("g"));
    let seed = lab.random.number();
    let member = if classic {
        GroupMember::classic(config, seed)
    } else {
        GroupMember::modern(config, Arc::from("0aaaaaaaaaaaaaaaaaaaaa"), seed)
    };
    let mut machine = Membership { member, failed: false };
    machine.member.subscribe(lab.now, [Arc::from("t")].into());
    for _ in 0..8 {
        machine.member.handle_poll(lab.now);
        run(&mut machine, lab, 8);
        match lab.random.below(6) {
            0 => machine.member.suspect(lab.now),
            1 => machine.member.subscribe(lab.now, [Arc::from("t"), Arc::from("u")].into()),
            2 => machine.member.subscribe(lab.now, [].into()),
            _ => machine.member.handle_busy(lab.now),
        }
    }
    machine.member.leave(lab.now);
    run(&mut machine, lab, 40);
    assert!(machine.member.owned().is_empty(), "who has left or failed owns nothing");
    format!("member, {}", if classic { "classic" } else { "KIP-848" })
}

struct Fetching {
    fetcher: Fetcher,
    batches: u64,
}

impl Machine for Fetching {
    fn request(&mut self, lab: &Lab) -> Option<OutgoingRequest> {
        self.fetcher.poll_request(lab.now, lab.client.metadata())
    }

    fn response(
        &mut self,
        lab: &Lab,
        request: &OutgoingRequest,
        _: i16,
        result: Result<Response, RequestError>,
    ) {
        self.fetcher.handle_response(lab.now, request.token, result);
    }

    fn events(&mut self, lab: &mut Lab) -> bool {
        let mut told = false;
        while let Some(event) = self.fetcher.poll_event() {
            told = true;
            match event {
                FetchEvent::Records(fetched) => {
                    let limits = DecodeLimits { max_decompressed_batch_bytes: 8 << 20 };
                    for batch in fetched.visible_batches(limits) {
                        let Ok(batch) = batch else { break };
                        self.batches += 1;
                        let records = batch.records.iter().flatten();
                        records.take_while(Result::is_ok).for_each(drop);
                    }
                    self.fetcher.release(&fetched.topic_partition, fetched.records.len());
                }
                FetchEvent::Failed { topic_partition, .. } => {
                    self.fetcher.assign(start(topic_partition));
                }
                FetchEvent::Progress { .. } => {}
            }
        }
        while let Some(stale) = self.fetcher.poll_stale_metadata() {
            renew(lab, stale);
        }
        told
    }

    fn timeout(&self) -> Option<Timestamp> {
        self.fetcher.poll_timeout()
    }

    fn time_came(&mut self, now: Timestamp) {
        self.fetcher.handle_timeout(now);
    }
}

fn fetch(lab: &mut Lab) -> String {
    let fetcher = Fetcher::new(FetchConfig::default(), lab.random.number());
    let mut machine = Fetching { fetcher, batches: 0 };
    for partition in 0..2 {
        machine.fetcher.assign(start(key(partition)));
    }
    run(&mut machine, lab, 40);
    "fetcher".to_owned()
}

fn start(topic_partition: TopicPartition) -> FetchStart {
    FetchStart { topic_partition, offset: 10, leader_epoch: 4 }
}

/// As the driver of the client does.
fn renew(lab: &mut Lab, stale: StaleMetadata) {
    match stale {
        StaleMetadata::Leader { topic_partition, hint: Some(hint) } => {
            let leader = millstream_protocol::NodeId(hint.leader_id);
            let epoch = hint.leader_epoch;
            lab.client.apply_leader_hint(lab.now, &topic_partition, leader, epoch);
        }
        StaleMetadata::Leader { hint: None, .. } => lab.client.request_metadata_update(lab.now),
        StaleMetadata::Coordinator(destination) => {
            lab.client.invalidate_coordinator(lab.now, &destination);
        }
    }
    lab.settle();
}

fn key(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}
