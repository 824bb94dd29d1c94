//! What is promised is served, what is not is closed.

use millstream_protocol::messages::{ApiVersionsRequest, kp};
use millstream_protocol::{ApiKey, Request, Response};

use super::TestCluster;
use crate::core::{ClusterConfig, Outgoing};

/// The versions that the broker promises of each API.
fn promised(test: &mut TestCluster) -> Vec<(i16, i16, i16)> {
    let request = ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1".to_owned(),
    };
    let Response::ApiVersions(response) = test.call(3, request) else { panic!("wrong answer") };
    response.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect()
}

/// The codecs read more APIs than the broker serves: requests of the others are not answered with anything.
#[test]
fn api_that_is_not_promised_is_closed() {
    let mut test = TestCluster::new(ClusterConfig::default());
    let promised = promised(&mut test);
    let requests: [(i16, Request); 3] = [
        (0, kp::DescribeClusterRequest::default().into()),
        (1, kp::WriteTxnMarkersRequest::default().into()),
        (2, kp::ListTransactionsRequest::default().into()),
    ];
    for (version, request) in requests {
        let api = request.api_key();
        let is_promised = promised
            .iter()
            .any(|(key, min, max)| *key == api.code() && (*min..=*max).contains(&version));
        assert!(!is_promised, "{api} {version}");
        test.send(1, version, request);
        let outgoing = test.cluster.poll_outgoing();
        assert!(matches!(outgoing, Some(Outgoing::Close { connection: 1 })), "{outgoing:?}");
    }
}

#[test]
fn nothing_is_promised_that_the_codecs_can_not_read() {
    let mut test = TestCluster::new(ClusterConfig::default());
    for (key, min, max) in promised(&mut test) {
        let api = ApiKey::from_code(key).expect("an API we speak");
        let codec = api.codec_versions();
        // Produce claims 0 and refuses it, as real brokers do (KAFKA-18659).
        let lowest = if api == ApiKey::Produce { 0 } else { *codec.start() };
        assert!(lowest <= min && max <= *codec.end(), "{api} {min}..={max}");
    }
}
