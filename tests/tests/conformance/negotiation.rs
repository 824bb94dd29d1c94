//! Which versions are spoken.

use std::collections::BTreeMap;

use millstream_protocol::ApiKey;
use millstream_protocol::records::Compression;
use millstream_protocol_client::{ConsumerGroupMetadata, OffsetAndMetadata};
use millstream_testcontainers::{FaultRule, JavaRecord, api_key};
use millstream_tests::records::send;

use crate::clusters::{Arena, LIMIT, matched, partition, unique};

/// The client connects although its first ApiVersions is answered with UNSUPPORTED_VERSION and `keys`, in the format of
/// version 0. Gives the versions that it asked in.
async fn refused(arena: &Arena, keys: &[[i16; 3]]) -> Vec<i16> {
    let id = unique("negotiation");
    let mut body = 35_i16.to_be_bytes().to_vec();
    body.extend(i32::try_from(keys.len()).unwrap().to_be_bytes());
    body.extend(keys.iter().flatten().flat_map(|number| number.to_be_bytes()));
    let rule = FaultRule::responses(api_key::API_VERSIONS).of_client(&id).times(1);
    let rules = arena.rule(&rule.replace(body));
    let client = arena.client(&id, &[]).await;
    assert!(matched(&rules) >= 1);
    assert_eq!(client.broker_count(), arena.cluster.proxies().count());
    arena.versions(&id, api_key::API_VERSIONS).into_iter().collect()
}

pub(crate) async fn negotiation_unsupported_version_with_api_keys(arena: &'static Arena) {
    let asked = refused(arena, &[[0, 3, 9], [18, 0, 2]]).await;
    assert!(asked.contains(&2), "the version that the answer names: {asked:?}");
}

pub(crate) async fn negotiation_unsupported_version_without_api_keys(arena: &'static Arena) {
    let asked = refused(arena, &[]).await;
    assert!(asked.contains(&0), "the first version: {asked:?}");
}

/// What counts is the finalized feature, not the versions that the broker knows (KIP-890).
pub(crate) async fn negotiation_feature_level_decides_the_transaction_mode(arena: &'static Arena) {
    let id = unique("negotiation");
    let client = arena.client(&id, &[]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    assert_eq!(client.transaction_version(), arena.transaction_version());
    let producer = client.producer(Some(&id));
    producer.init_transactions().await.unwrap();
    producer.begin_transaction(1).unwrap();
    let record = JavaRecord { value: Some(b"value".to_vec()), ..JavaRecord::default() };
    send(&producer, &topic, Compression::None, &[record], 1).await;
    // The dev broker takes no offsets in transactions.
    let with_offsets = arena.kafka().is_some();
    if with_offsets {
        let group = ConsumerGroupMetadata {
            group_id: id.as_str().into(),
            generation_id: -1,
            member_id: "".into(),
            group_instance_id: None,
        };
        let offsets = BTreeMap::from([(partition(&topic, 0), OffsetAndMetadata::new(1, -1))]);
        producer.send_offsets_to_transaction(&group, offsets).await.unwrap();
    }
    producer.commit_transaction(LIMIT).await.unwrap();

    let newest = |api: ApiKey| arena.versions(&id, api.code()).last().copied();
    if arena.transaction_version() == 2 {
        assert_eq!(newest(ApiKey::AddPartitionsToTxn), None);
        assert_eq!(newest(ApiKey::AddOffsetsToTxn), None);
        assert_eq!(newest(ApiKey::Produce), Some(12));
        assert_eq!(newest(ApiKey::EndTxn), Some(5));
        assert_eq!(newest(ApiKey::TxnOffsetCommit), with_offsets.then_some(5));
    } else {
        assert!(newest(ApiKey::AddPartitionsToTxn).is_some_and(|version| version <= 3));
        assert_eq!(newest(ApiKey::AddOffsetsToTxn).is_some(), with_offsets);
        assert!(newest(ApiKey::Produce).is_some_and(|version| version <= 11));
        assert!(newest(ApiKey::EndTxn).is_some_and(|version| version <= 4));
        assert!(newest(ApiKey::TxnOffsetCommit).is_none_or(|version| version <= 4));
    }
}
