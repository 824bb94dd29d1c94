//! From what the member owns to what the broker wants it to own.

use std::collections::BTreeSet;

use super::{Leave, ModernMember};
use crate::group::GroupEvent;
use crate::{Timestamp, TopicPartition};

impl ModernMember {
    /// Takes the next step: asks the user to let go, or takes what is new, and tells the broker.
    pub(super) fn reconcile(&mut self, now: Timestamp) {
        if self.revoking.is_some() {
            return;
        }
        let Some(target) = &self.target else { return };
        let mut wanted = BTreeSet::new();
        for (id, partitions) in target {
            let Some(topic) = self.topic_names.get(id) else {
                // What can be named is worked on meanwhile.
                self.awaits_topics = true;
                continue;
            };
            wanted.extend(
                partitions.iter().map(|partition| TopicPartition {
                    topic: topic.clone(),
                    partition: *partition,
                }),
            );
        }
        let revoked: BTreeSet<_> = self.owned.difference(&wanted).cloned().collect();
        if !revoked.is_empty() {
            self.events.push_back(GroupEvent::Revoked(revoked.clone()));
            self.revoking = Some(revoked);
            return;
        }
        if self.subscription.is_empty() {
            self.leave = Some(Leave { sent: None, last: false });
            self.become_idle();
            return;
        }
        let added: BTreeSet<_> = wanted.difference(&self.owned).cloned().collect();
        if !added.is_empty() {
            self.owned.extend(added.iter().cloned());
            self.events.push_back(GroupEvent::Assigned(added));
        }
        if self.told.as_ref().is_none_or(|told| told.owned != self.owned) {
            // The acknowledgement: others may wait for what we let go.
            self.clock.hurry(now);
        }
    }
}
