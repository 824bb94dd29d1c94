//! What one broker speaks (KIP-35), and what the cluster has finalized (KIP-584).

use std::collections::BTreeMap;

use super::RequestError;
use crate::messages::{ApiKey, ApiVersionsResponse};

/// The version ranges one broker announced on one connection. Brokers differ during a rolling upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BrokerVersions {
    ranges: BTreeMap<i16, (i16, i16)>,
}

impl BrokerVersions {
    pub(super) fn new(response: &ApiVersionsResponse) -> Self {
        let ranges = response.api_keys.iter().map(|v| (v.api_key, (v.min_version, v.max_version)));
        Self { ranges: ranges.collect() }
    }

    /// The broker's highest version of `api` within ours; `None` if there is none in common.
    pub(super) fn max_version(&self, api: ApiKey) -> Option<i16> {
        self.choose(api, None).ok()
    }

    /// The highest version that both speak and that is not above `limit`.
    pub(super) fn choose(&self, api: ApiKey, limit: Option<i16>) -> Result<i16, RequestError> {
        let ours = api.client_versions();
        let (ours_min, ours_max) = (*ours.start(), limit.unwrap_or(i16::MAX).min(*ours.end()));
        let (theirs_min, theirs_max) = self.ranges.get(&api.code()).copied().unwrap_or((0, -1));
        let version = ours_max.min(theirs_max);
        if version >= ours_min.max(theirs_min) {
            return Ok(version);
        }
        Err(RequestError::UnsupportedByBroker { api, ours_min, ours_max, theirs_min, theirs_max })
    }
}

/// Feature levels the whole cluster has agreed on, from the answer with the highest epoch that any broker gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FinalizedFeatures {
    epoch: Option<i64>,
    levels: BTreeMap<String, i16>,
}

impl FinalizedFeatures {
    /// Takes the answer unless it is older than what is known. True if a level changed.
    pub(super) fn update(&mut self, response: &ApiVersionsResponse) -> bool {
        let epoch = response.finalized_features_epoch;
        if epoch < 0 || self.epoch.is_some_and(|known| epoch < known) {
            return false;
        }
        self.epoch = Some(epoch);
        let levels = response.finalized_features.iter();
        let levels = levels.map(|f| (f.name.clone(), f.max_version_level)).collect();
        std::mem::replace(&mut self.levels, levels) != self.levels
    }

    /// The finalized level of `feature`; 0 if the cluster has none.
    pub(super) fn level(&self, feature: &str) -> i16 {
        self.levels.get(feature).copied().unwrap_or(0)
    }
}
