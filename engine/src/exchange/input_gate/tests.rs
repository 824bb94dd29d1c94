use proptest::prelude::*;

use super::*;
use crate::exchange::CheckpointKind;
use crate::task::WorkerNotifier;
use crate::time::WatermarkStatus;

/// Elements say which checkpoint they belong to.
type Element = u64;
type Batch = Vec<Element>;

fn gate(inputs: usize) -> (Vec<Arc<Channel<Batch>>>, InputGate<Batch>) {
    let channel = || Arc::new(Channel::new(100, WorkerNotifier::new(), WorkerNotifier::new()));
    let channels: Vec<_> = (0..inputs).map(|_| channel()).collect();
    (channels.clone(), InputGate::new(channels))
}

fn batch(checkpoint: Element) -> StreamElement<Batch> {
    StreamElement::Batch { batch: vec![checkpoint], bytes: 10 }
}

fn barrier(checkpoint: u64) -> StreamElement<Batch> {
    let kind = CheckpointKind::Checkpoint;
    StreamElement::CheckpointBarrier(CheckpointBarrier { checkpoint, kind })
}

/// Feeds every input `script[input]` batches before each of two barriers and one after, and reads the gate in a random
/// order of arrival. Gives the first element that came through on the wrong side of a barrier.
fn misplaced(script: &[(usize, usize)], order: &[usize], align: bool) -> Option<(u64, Element)> {
    let (channels, mut gate) = gate(script.len());
    if !align {
        gate.never_align();
    }
    let queue = |(first, second): (usize, usize)| {
        let mut elements: Vec<StreamElement<Batch>> = (0..first).map(|_| batch(1)).collect();
        elements.push(barrier(1));
        elements.extend((0..second).map(|_| batch(2)));
        elements.push(barrier(2));
        elements.push(batch(3));
        elements.into_iter()
    };
    let mut queues: Vec<_> = script.iter().map(|script| queue(*script)).collect();
    let mut current = 1;
    let mut misplaced = None;
    let mut read = |gate: &mut InputGate<Batch>| {
        // The mutant may also meet barrier 2 while it counts barrier 1: a named bug, and as wrong.
        let Ok(event) = gate.poll(true) else { return Some((current, 0)) };
        match event {
            Some(GateEvent::Batch { batch, .. }) => {
                let wrong = batch.into_iter().find(|of| *of != current);
                misplaced = misplaced.or(wrong.map(|of| (current, of)));
            }
            Some(GateEvent::Barrier(barrier)) => {
                assert_eq!(barrier.checkpoint, current);
                current += 1;
            }
            _ => {}
        }
        misplaced
    };
    for input in order {
        let input = input % script.len();
        if let Some(element) = queues[input].next() {
            channels[input].push(element);
        }
        if let Some(found) = read(&mut gate) {
            return Some(found);
        }
    }
    for (channel, queue) in channels.iter().zip(queues) {
        queue.for_each(|element| channel.push(element));
    }
    for _ in 0..1_000 {
        if let Some(found) = read(&mut gate) {
            return Some(found);
        }
    }
    assert_eq!(current, 3, "a barrier was lost");
    None
}

proptest! {
    #[test]
    fn no_element_passes_on_the_wrong_side_of_a_barrier(
        script in prop::collection::vec((0..4_usize, 0..4_usize), 1..5),
        order in prop::collection::vec(0..60_usize, 0..80),
    ) {
        prop_assert_eq!(misplaced(&script, &order, true), None);
    }
}

#[test]
fn a_gate_that_does_not_align_is_caught() {
    // The checker above must see what it claims to see: input 0 is ahead of input 1.
    assert_eq!(misplaced(&[(0, 1), (2, 0)], &[0, 0, 0, 0], true), None);
    assert!(misplaced(&[(0, 1), (2, 0)], &[0, 0, 0, 0], false).is_some());
}

#[test]
fn without_capacity_only_a_barrier_at_the_head_is_taken() {
    let (channels, mut gate) = gate(2);
    channels[0].push(batch(1));
    channels[0].push(barrier(1));
    channels[1].push(barrier(1));
    assert!(matches!(gate.poll(false), Ok(Some(GateEvent::Absorbed))));
    assert!(matches!(gate.poll(false), Ok(None)), "a barrier does not overtake a batch");
    assert!(matches!(gate.poll(true), Ok(Some(GateEvent::Batch { .. }))));
    assert!(matches!(gate.poll(false), Ok(Some(GateEvent::Barrier(_)))));
}

#[test]
fn the_gate_ends_when_all_inputs_have_and_still_takes_barriers() {
    let (channels, mut gate) = gate(2);
    channels[0].push(StreamElement::EndOfInput);
    channels[1].push(StreamElement::Watermark(7));
    channels[1].push(StreamElement::WatermarkStatus(WatermarkStatus::Idle));
    channels[1].push(StreamElement::EndOfInput);
    let mut events = Vec::new();
    while let Some(event) = gate.poll(true).unwrap() {
        events.push(event);
    }
    assert!(matches!(events.last(), Some(GateEvent::End)), "{events:?}");
    assert_eq!(events.iter().filter(|event| matches!(event, GateEvent::End)).count(), 1);
    channels.iter().for_each(|channel| channel.push(barrier(1)));
    assert!(matches!(gate.poll(true), Ok(Some(GateEvent::Absorbed))));
    assert!(matches!(gate.poll(true), Ok(Some(GateEvent::Barrier(_)))));
}

#[test]
fn an_emptied_batch_goes_back_to_the_input_that_it_came_from() {
    let (channels, mut gate) = gate(2);
    channels[1].push(batch(1));
    let Ok(Some(GateEvent::Batch { input, batch })) = gate.poll(true) else { panic!("no batch") };
    gate.give_back(input, batch);
    assert_eq!(channels[0].take_spare(), None);
    assert_eq!(channels[1].take_spare(), Some(vec![1]));
    assert_eq!(channels[1].take_spare(), None);
}

#[test]
fn a_channel_is_full_by_bytes_and_takes_control_elements_all_the_same() {
    let producer = WorkerNotifier::new();
    let channel = Channel::new(15, producer.clone(), WorkerNotifier::new());
    channel.push(batch(1));
    assert!(channel.has_capacity());
    channel.push(batch(1));
    assert!(!channel.has_capacity());
    channel.push(StreamElement::Watermark(1));
    channel.push(StreamElement::Watermark(3));
    channel.push(barrier(1));
    assert!(channel.pop_if(|_| true).is_some());
    assert!(channel.has_capacity() && producer.is_notified());
    channel.pop_if(|_| true);
    assert!(matches!(channel.pop_if(|_| true), Some(StreamElement::Watermark(3))), "merged");
    assert!(matches!(channel.pop_if(|_| true), Some(StreamElement::CheckpointBarrier(_))));
    assert!(channel.pop_if(|_| true).is_none());
}
