use std::time::Duration;

use millstream_dev_broker::{DevBroker, DevBrokerConfig};
use millstream_protocol::records::{BatchBuilder, Compression};
use millstream_protocol_client::NewTopic;

use super::*;

/// B076: a partition was added while the job was down. All of it is new, although the job once began at the end.
#[tokio::test]
async fn a_partition_that_the_state_does_not_know_is_read_from_its_beginning() {
    let broker = DevBroker::start(DevBrokerConfig::default()).unwrap();
    let client = KafkaClient::connect(ClientConfig::new(broker.address())).await.unwrap();
    assert!(client.create_topic(NewTopic::new("t", 2, 1)).await.unwrap());
    let producer = client.producer(None);
    for partition in 0..2 {
        let mut batch = BatchBuilder::new(Compression::None, 1 << 16);
        for _ in 0..8 {
            batch.append(1, None, Some(b"v"), &[]).unwrap();
        }
        let batch = batch.build().unwrap().unwrap();
        producer.send_batch(TopicPartition::new("t", partition), batch, 0);
    }
    tokio::time::timeout(Duration::from_secs(60), producer.flush(0)).await.unwrap().unwrap();

    let description = KafkaSourceDescription {
        config: ClientConfig::new(broker.address()),
        topics: vec!["t".to_owned()],
        starting_offsets: OffsetsInitializer::latest(),
        bounded: None,
    };
    let uid: Arc<str> = Arc::from("source");
    let opened = description.open(&uid).await.unwrap();
    let first = description.first_positions(&uid, &opened).await.unwrap();
    assert_eq!(offsets(&first), [(0, 8), (1, 8)]);
    let mut known = Positions::new();
    known.insert(Arc::clone(&uid), SourcePosition { offset: 5, ..first[0].clone() });
    let resumed = description.resume_positions(&uid, &opened, &known).await.unwrap();
    assert_eq!(offsets(&resumed), [(0, 5), (1, 0)]);
    opened.client.close().await;
    client.close().await;
    broker.stop().await;
}

fn offsets(positions: &[SourcePosition]) -> Vec<(i32, i64)> {
    positions.iter().map(|position| (position.partition, position.offset)).collect()
}
