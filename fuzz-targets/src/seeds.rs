//! Valid inputs to begin from, made anew each time: fuzzing starts from them, the replay runs them too.

use bytes::Bytes;
use millstream_protocol::group::consumer_protocol::{Assignment, StickyUserData, Subscription};
use millstream_protocol::records::{Compression, RecordSet};
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{ApiKey, TopicPartition};

use crate::broker::batch;
use crate::{Broker, sample_request};

/// The seeds of a target.
#[must_use]
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "frame" => vec![
            [&[3][..], &framed(b"abc"), &framed(b""), &framed(b"de")].concat(),
            b"\x01HTTP/1.1 400".to_vec(),
            vec![1, 0x15, 3, 3, 0, 2, 2, 40],
            [&[200][..], &[0x07, 0xff, 0xff, 0xff], b"never comes"].concat(),
        ],
        "request" => requests(),
        "response" => responses(),
        "consumer_protocol" => consumer_protocol(),
        "network" => network(),
        "fetcher" => Compression::ALL
            .into_iter()
            .map(|codec| {
                let batch = batch(codec);
                let length = u8::try_from(batch.len()).expect("a small batch");
                let mut input = vec![1, 1, length];
                input.extend_from_slice(&10_i64.to_be_bytes());
                input.extend_from_slice(&batch[8..]);
                // The same again, by a refused offset, a moved leader, an evicted session.
                input.extend([1, 2, 0, 0, 7, 0, 0x32, 71, 0, 0, 1, 0]);
                input
            })
            .collect(),
        "record_set" => {
            let mut seeds = Compression::ALL.map(|codec| [&[1], &batch(codec)[..]].concat()).to_vec();
            seeds.extend([0, 1].map(|magic| [&[2], &message(magic)[..]].concat()));
            seeds
        }
        "abort_filter" => vec![
            [&[0, 0][..], &[0x04, 0x15, 0x0c, 0x09, 0x06, 0x0e, 0x00]].concat(),
            [&[2, 0x81][..], &[0x44, 0x05, 0x0f, 0x0c, 0x04, 0x0d, 0x08]].concat(),
        ],
        "codec_gzip" => compressed(Compression::Gzip),
        "codec_snappy" => compressed(Compression::Snappy),
        "codec_lz4" => compressed(Compression::Lz4),
        "codec_zstd" => compressed(Compression::Zstd),
        "scram" => vec![
            b"\0r=nonce3rfcNHYJY1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096\nv=rmF9pqV8S7suAoZWja4dJR==".to_vec(),
            b"\x01r=nonceX,s=QSXCR+Q6sek8bf92,i=4096\ne=other-error".to_vec(),
        ],
        "sasl_exchange" => vec![
            b"\0r=nonceX,s=QSXCR+Q6sek8bf92,i=4096\nv=rmF9".to_vec(),
            b"\x01{\"status\":\"invalid_token\"}\nx".to_vec(),
            b"\x02\n".to_vec(),
        ],
        "jaas" => vec![
            b"org.apache.kafka.common.security.plain.PlainLoginModule required username=\"a\" password=\"b\";".to_vec(),
            b"// c\nX required k='v' /* c */ l=w ;".to_vec(),
        ],
        "properties" => vec![
            b"# c\nbootstrap.servers=a:1\nlinger.ms : 5\n! d\nacks all\nsasl.jaas.config=X required \\\n a=b;\n".to_vec(),
            b"ssl.protocol=TLSv1.3\ncompression.type=\\u006cz4\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN".to_vec(),
        ],
        _ => Vec::new(),
    }
}

fn framed(frame: &[u8]) -> Vec<u8> {
    let size = u32::try_from(frame.len()).expect("small");
    [&size.to_be_bytes(), frame].concat()
}

fn requests() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for api in ApiKey::ALL {
        for version in ends(api) {
            let frame = sample_request(api, version).encode(version, 7, "c").expect("a sample");
            seeds.push(frame.to_bytes().slice(4..).to_vec());
        }
    }
    seeds
}

fn responses() -> Vec<Vec<u8>> {
    let broker = Broker::new("b", 9092, 2);
    let mut seeds = Vec::new();
    for (index, api) in ApiKey::ALL.into_iter().enumerate() {
        for version in api.client_versions() {
            let request = sample_request(api, version);
            let answer = broker.answer(&request, version).expect("an answer");
            let frame = answer.encode(version, 7).expect("an answer of this version").to_bytes();
            let (_, body) = ResponseHeader::decode(api, version, frame.slice(4..)).expect("ours");
            let place = u8::try_from(version - api.codec_versions().start()).expect("small");
            let index = u8::try_from(index).expect("few APIs");
            seeds.push([&[index, place], &body[..]].concat());
        }
    }
    seeds
}

/// The lowest and highest version that the client uses.
fn ends(api: ApiKey) -> Vec<i16> {
    let (start, end) = api.client_versions().into_inner();
    if start == end { vec![start] } else { vec![start, end] }
}

fn consumer_protocol() -> Vec<Vec<u8>> {
    let partitions = vec![TopicPartition::new("t", 0), TopicPartition::new("u", 3)];
    let assignment = Assignment { partitions: partitions.clone(), user_data: None };
    let subscription = Subscription {
        topics: ["t".into(), "u".into()].into(),
        user_data: Some(Bytes::from_static(b"x")),
        owned_partitions: partitions.clone(),
        generation_id: 3,
        rack_id: Some("r".into()),
    };
    let user_data = StickyUserData { previous_assignment: partitions, generation: 3 };
    vec![
        [&[0], &assignment.encode().expect("short")[..]].concat(),
        [&[1], &subscription.encode().expect("short")[..]].concat(),
        [&[2], &user_data.encode().expect("short")[..]].concat(),
        vec![3, 0, 0, 0, 3],
    ]
}

/// Connected and served honestly for a while, then the same broker as a liar.
fn network() -> Vec<Vec<u8>> {
    let honest = [5, 0, 3, 0].repeat(8);
    vec![
        [&[0][..], &honest, &[0, 3, 1, 2, 3, 7, 12, 6, 0]].concat(),
        [&[1][..], &honest, &[5, 0, 3, 0, 0, 2, 0, 58, 7, 17]].concat(),
        [&[0][..], &[5, 0, 1, 6, 0, 35, 0, 0, 0, 0, 3, 0], &honest].concat(),
    ]
}

/// A message of the formats before; length and checksum are set by the target.
fn message(magic: u8) -> Vec<u8> {
    let mut message = vec![0; 16];
    message.extend([magic, 0]);
    if magic == 1 {
        message.extend(1_700_000_000_000_i64.to_be_bytes());
    }
    message.extend([0, 0, 0, 1, b'k', 0, 0, 0, 2, b'v', b'w']);
    message
}

fn compressed(codec: Compression) -> Vec<Vec<u8>> {
    let batch = RecordSet::new(Bytes::from(batch(codec))).next().expect("one").expect("good");
    let records = batch.raw().slice(61..).to_vec();
    vec![records.clone(), [records.clone(), records].concat()]
}
