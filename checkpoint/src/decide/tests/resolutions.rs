//! The ways out: each applies to its situation and to no other.

use super::*;

const BOTH: [Resolution; 2] = [Resolution::AdoptLocal, Resolution::AcceptRewind];

fn resolved(case: &Case<'_>, resolution: Resolution) -> Resolved {
    let look = case.with(|facts| look_resolving(facts, resolution));
    assert_eq!(look, Ok(()), "the look stops what the decision allows");
    case.with(|facts| resolve(facts, resolution)).expect("it applies")
}

fn refused(case: &Case<'_>, resolution: Resolution) -> String {
    let refusal = case.with(|facts| resolve(facts, resolution)).expect_err("it does not apply");
    match refusal {
        Unresolved::Refused(refused) => refused.to_string(),
        other => panic!("{other:?}"),
    }
}

/// META at 4, deltas of 4 and of a dead attempt at 5.
fn at_four() -> LocalState {
    local(Some(meta(at(4, 1), Some(70))), &[(at(4, 1), at(3, 1)), (at(5, 2), at(4, 1))])
}

#[test]
fn a_lost_ledger_is_adopted_from_the_directory() {
    let local = at_four();
    let case = Case::new(&local, None);
    let Resolved { point, given_up } = resolved(&case, Resolution::AdoptLocal);
    let expected = RecoveryPoint {
        at: at(4, 1),
        positions: positions(1004),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_offset: None,
        delta_digest: Some(digest(at(4, 1))),
        quarantine: vec![at(5, 2)],
    };
    assert_eq!(point, expected);
    let text = given_up.to_string();
    for part in ["/state", "orders-ledger-4", "checkpoint 4", "holds nothing", "written again"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let refused = refused(&case, Resolution::AcceptRewind);
    assert!(refused.contains("--accept-rewind does not apply") && refused.contains("lost"));
}

#[test]
fn a_ledger_that_was_restored_older_is_adopted_over() {
    let local = at_four();
    let older = LedgerFact { offset: 60, ..fact(at(2, 1), 1) };
    let Resolved { point, given_up } =
        resolved(&Case::new(&local, Some(&older)), Resolution::AdoptLocal);
    assert_eq!((point.at, point.ledger_offset), (at(4, 1), None));
    assert!(given_up.to_string().contains("stands at 2 ("), "{given_up}");
}

#[test]
fn a_topic_made_anew_is_adopted_whatever_of_this_history_it_holds() {
    let local = at_four();
    for (ledger, expected) in [
        (None, at(4, 1)),
        (Some(fact(at(2, 1), 1)), at(4, 1)),
        (Some(fact(at(4, 1), 1)), at(4, 1)),
        (Some(fact(at(5, 2), 1)), at(5, 2)),
    ] {
        let mut case = Case::new(&local, ledger.as_ref());
        case.topic = TopicId([9; 16]);
        let Resolved { point, .. } = resolved(&case, Resolution::AdoptLocal);
        assert_eq!((point.at, point.ledger_offset), (expected, None), "{ledger:?}");
        assert!(refused(&case, Resolution::AcceptRewind).contains("created anew"));
    }
    // What another directory wrote there is not overwritten, and the plain start says so already.
    let ahead = fact(at(9, 1), 1);
    let mut case = Case::new(&local, Some(&ahead));
    case.topic = TopicId([9; 16]);
    assert!(refused(&case, Resolution::AdoptLocal).contains("stale"));
    let Look::Stop(stop) = case.look() else { panic!("{:?}", case.look()) };
    assert!(matches!(stop, StopReason::StaleLocalState { .. }), "{stop}");
    let look = case.with(|facts| look_resolving(facts, Resolution::AdoptLocal));
    assert!(matches!(look, Err(Unresolved::Refused(_))), "somebody was fenced");
    assert_eq!(resolved(&case, Resolution::AcceptRewind).point.at, at(4, 1));
}

/// Somebody accepted a rewind on an older directory: the job goes on there under lower numbers, behind the record that this
/// directory knows. No brokers lost anything, and to take this directory as the truth would end a healthy job.
#[test]
fn a_directory_of_a_history_that_was_given_up_is_told_so_before_the_fence() {
    let local = super::local(Some(meta(at(9, 1), Some(70))), &[(at(10, 1), at(9, 1))]);
    let rewound = fact(at(5, 2), 2);
    let case = Case::new(&local, Some(&rewound));
    let Look::Stop(stop) = case.look() else { panic!("{:?}", case.look()) };
    assert_eq!(case.decide(), Decision::Stop(stop.clone()));
    let text = stop.to_string();
    assert!(text.contains("two histories") && text.contains("given up"), "{text}");
    assert!(!text.contains("--"), "a way out is named: {text}");
    for resolution in BOTH {
        let look = case.with(|facts| look_resolving(facts, resolution));
        assert!(matches!(look, Err(Unresolved::Refused(_))), "somebody was fenced");
    }
    // A record before the known one is a loss; so may be one that is a single step back, whose offset is not known for certain;
    // and offsets of another topic say nothing.
    let lost = LedgerFact { offset: 60, ..rewound.clone() };
    let one_back = fact(at(8, 2), 2);
    for (ledger, topic) in
        [(&lost, [1; 16]), (&one_back, [1; 16]), (&rewound, [9; 16]), (&rewound, [0; 16])]
    {
        let case = Case { topic: TopicId(topic), ..Case::new(&local, Some(ledger)) };
        assert!(stop_of(case.decide()).to_string().contains("--adopt-local"));
        assert_eq!(resolved(&case, Resolution::AdoptLocal).point.at, at(9, 1));
    }
}

/// Whoever follows the advice of a stop gets on: the way out that it names applies to the same facts, before the fence and behind
/// it, and no other one is named by anything that is said on them.
#[test]
fn the_way_out_that_a_stop_names_is_not_refused_and_no_advice_leads_in_a_circle() {
    let named = |text: &str| BOTH.map(|resolution| text.contains(&resolution.to_string()));
    let (mut stops, mut followed, mut refusals) = (0, [0, 0], 0);
    let mut locals = all_locals();
    for mut local in all_locals() {
        // A damaged file for every attempt that has no valid one.
        for at in [at(1, 1), at(2, 2), at(3, 1)] {
            if local.delta(at).is_none() {
                let path = "/state/deltas/x.quarantined".into();
                local.quarantined.push(QuarantinedFile { path, at, reason: None });
            }
        }
        locals.push(local);
    }
    let offsets = [77, 2];
    for local in &locals {
        for ledger in all_ledgers() {
            for (offset, topic) in offsets.iter().flat_map(|o| [1, 9, 0].map(|t| (*o, t))) {
                let ledger = ledger.clone().map(|fact| LedgerFact { offset, ..fact });
                let case =
                    Case { topic: TopicId([topic; 16]), ..Case::new(local, ledger.as_ref()) };
                let (look, decision) = (case.look(), case.decide());
                let Decision::Stop(stop) = &decision else {
                    assert_eq!(look, Look::Continue, "{local:?} {ledger:?}");
                    continue;
                };
                if let Look::Stop(early) = &look {
                    assert_eq!(early, stop, "the look and the decision tell two things");
                }
                stops += 1;
                let ways = named(&stop.to_string());
                assert_ne!(ways, [true, true], "{stop}");
                for ((resolution, is_named), count) in BOTH.into_iter().zip(ways).zip(&mut followed)
                {
                    let looked = case.with(|facts| look_resolving(facts, resolution));
                    let resolved = case.with(|facts| resolve(facts, resolution));
                    if is_named {
                        *count += 1;
                        assert_eq!(looked, Ok(()), "{stop}");
                        resolved.unwrap_or_else(|refused| panic!("{stop}\n{refused:?}"));
                        continue;
                    }
                    assert!(looked.is_err(), "somebody is fenced for nothing: {stop}");
                    refusals += 1;
                    let text = match resolved {
                        Err(Unresolved::Refused(refused)) => refused.to_string(),
                        Err(Unresolved::Stop(stop)) => stop.to_string(),
                        other => panic!("{stop}\n{other:?}"),
                    };
                    let mut others = named(&text);
                    // Its own name stands there as what does not apply.
                    for (other, index) in BOTH.into_iter().zip(0..) {
                        others[index] &= other != resolution;
                    }
                    assert!(others == [false, false] || others == ways, "{stop}\n{text}");
                }
            }
        }
    }
    assert!(stops > 50_000 && followed.iter().all(|n| *n > 5_000), "{stops} {followed:?}");
    assert!(refusals > 50_000, "{refusals}");
}

#[test]
fn an_older_state_is_gone_on_from_only_by_accepting_the_rewind() {
    let mut damaged = at_four();
    damaged.deltas.retain(|delta| delta.header.at != at(5, 2));
    let reason = Some(DeltaError::Torn { bytes: 12 });
    let path = "/state/deltas/x.quarantined".into();
    damaged.quarantined.push(QuarantinedFile { path, at: at(5, 2), reason });
    let mut other_digest = fact(at(5, 2), 1);
    other_digest.record.delta_digest = Some(DeltaDigest([0xee; 16]));
    for (local, ledger) in [
        (at_four(), fact(at(9, 3), 1)),
        (at_four(), fact(at(5, 9), 1)),
        (damaged, fact(at(5, 2), 1)),
        (at_four(), other_digest),
    ] {
        let case = Case::new(&local, Some(&ledger));
        let Resolved { point, given_up } = resolved(&case, Resolution::AcceptRewind);
        assert_eq!((point.at, point.ledger_offset), (at(4, 1), None), "{ledger:?}");
        assert_eq!(point.quarantine, local.after(CheckpointId(4)));
        assert!(given_up.to_string().contains("exactly-once for the output behind"), "{given_up}");
        assert!(refused(&case, Resolution::AdoptLocal).contains("does not apply"));
    }
}

/// Only the header of the damaged file says that its parent was confirmed; the ledger's record says so too.
#[test]
fn a_rewind_behind_a_damaged_delta_repeats_one_checkpoint_and_the_text_names_it() {
    let files = [(at(4, 1), at(3, 1)), (at(5, 1), at(4, 1))];
    let whole = super::local(Some(meta(at(4, 1), Some(70))), &files);
    let mut damaged = whole.clone();
    let reason = Some(DeltaError::Torn { bytes: 12 });
    let path = "/state/deltas/x.quarantined".into();
    damaged.quarantined.push(QuarantinedFile { path, at: at(6, 1), reason });
    // 6 follows 5, of the attempt that the directory has, or of another, of which nothing is known; 9 follows 8.
    for (local, ledger, expected) in [
        (&damaged, fact(at(6, 1), 1), at(5, 1)),
        (&whole, fact(at(6, 1), 1), at(5, 1)),
        (&damaged, fact(at(6, 1), 7), at(4, 1)),
        (&whole, fact(at(9, 1), 1), at(4, 1)),
    ] {
        let case = Case::new(local, Some(&ledger));
        let text = stop_of(case.decide()).to_string();
        let named = format!("--accept-rewind, which goes on from {expected} and writes");
        assert!(text.contains(&named), "{named:?} in {text}");
        let Resolved { point, given_up } = resolved(&case, Resolution::AcceptRewind);
        assert_eq!((point.at, &point.quarantine), (expected, &local.after(expected.checkpoint)));
        assert!(given_up.to_string().contains(&format!("checkpoint {expected}")), "{given_up}");
    }
    // A digest that was not committed: its parent is what its own header says.
    let mut other_digest = fact(at(5, 1), 1);
    other_digest.record.delta_digest = None;
    let text = stop_of(Case::new(&whole, Some(&other_digest)).decide()).to_string();
    let named = format!(
        "names none. Restore the file that was committed; or start once with --accept-rewind, which goes on from {}",
        at(4, 1)
    );
    assert!(text.contains(&named), "{text}");
}

#[test]
fn where_state_and_ledger_fit_together_both_are_refused_before_anybody_is_fenced() {
    let local = at_four();
    for ledger in [fact(at(4, 1), 1), fact(at(5, 2), 1)] {
        let case = Case::new(&local, Some(&ledger));
        for resolution in BOTH {
            let text = refused(&case, resolution);
            assert!(text.contains(&format!("{resolution} does not apply")), "{text}");
            assert!(text.contains("start the job without it"), "{text}");
            assert!(case.with(|facts| look_resolving(facts, resolution)).is_err());
        }
    }
    // A first start, and one whose record 0 was never committed.
    let nothing = super::local(None, &[]);
    let begun = super::local(Some(meta(at(0, 1), None)), &[]);
    for local in [nothing, begun] {
        for resolution in BOTH {
            let case = Case::new(&local, None);
            assert!(case.with(|facts| look_resolving(facts, resolution)).is_err());
            refused(&case, resolution);
        }
    }
}

/// EndTxn is answered before its markers are written: a ledger that looks behind or empty before the fence proves nothing.
#[test]
fn a_forgotten_rewind_is_not_called_a_loss_while_markers_may_be_on_their_way() {
    let local = at_four();
    let older = fact(at(3, 1), 1);
    for (ledger, shown) in [(Some(&older), "checkpoint 3"), (None, "no checkpoint")] {
        let case = Case::new(&local, ledger);
        let look = case.with(|facts| look_resolving(facts, Resolution::AcceptRewind));
        let Err(Unresolved::Refused(refusal)) = look else { panic!("{look:?}") };
        let text = refusal.to_string();
        for part in [
            "--accept-rewind does not apply",
            "is not ahead of the state in /state",
            "stands at checkpoint 4",
            shown,
            "start the job without --accept-rewind",
            "waits for the markers",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!text.contains("adopt-local") && !text.contains("lost acknowledged"), "{text}");
        // Behind the fence the same ledger is the truth.
        let behind = refused(&case, Resolution::AcceptRewind);
        assert!(behind.contains("--adopt-local"), "{behind}");
    }
}

#[test]
fn two_histories_another_job_and_a_newer_owner_have_no_way_out() {
    let local = at_four();
    let split = fact(at(4, 9), 1);
    let mut foreign = fact(at(2, 1), 1);
    foreign.record.job = JobName::new("payments").unwrap();
    let merged = super::local(Some(meta(at(3, 1), None)), &[(at(4, 2), at(3, 2))]);
    for resolution in BOTH {
        assert!(refused(&Case::new(&local, Some(&split)), resolution).contains("two histories"));
        assert!(refused(&Case::new(&local, Some(&foreign)), resolution).contains("payments"));
        let contradicting = Case::new(&merged, None).with(|facts| resolve(facts, resolution));
        assert!(matches!(
            contradicting,
            Err(Unresolved::Stop(StopReason::ContradictingFiles { .. }))
        ));
        let phase = OwnershipPhase::MayOwn;
        let older = fact(at(2, 1), 1);
        let case = Case { phase, newer_owner: true, ..Case::new(&local, Some(&older)) };
        let fenced = Err(Unresolved::Fenced(FencedReason::NewerOwner));
        assert_eq!(case.with(|facts| look_resolving(facts, resolution)), fenced);
        assert_eq!(case.with(|facts| resolve(facts, resolution).map(|_| ())), fenced);
    }
}

#[test]
fn every_combination_that_stops_has_at_most_one_way_out_and_none_goes_beyond_the_directory() {
    let (mut stops, mut ways_out) = (0, [0, 0]);
    for local in all_locals() {
        for ledger in all_ledgers() {
            let case = Case::new(&local, ledger.as_ref());
            let stopped = matches!(case.decide(), Decision::Stop(_));
            stops += usize::from(stopped);
            let out = BOTH.map(|resolution| case.with(|facts| resolve(facts, resolution)));
            if let [Ok(_), Ok(_)] = &out {
                panic!("both apply: {local:?} {ledger:?}");
            }
            for (resolved, count) in out.into_iter().zip(&mut ways_out) {
                let Ok(Resolved { point, .. }) = resolved else { continue };
                *count += 1;
                assert!(stopped, "{local:?} {ledger:?}");
                let confirmed = local.confirmed().expect("a state");
                let proven = ledger.as_ref().and_then(|ledger| ledger.record.parent);
                assert!(point.at.checkpoint <= confirmed.checkpoint || proven == Some(point.at));
                assert_eq!(point.ledger_offset, None);
            }
        }
    }
    assert!(stops > 1_000 && ways_out.iter().all(|count| *count > 100), "{stops} {ways_out:?}");
}
