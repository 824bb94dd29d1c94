//! Transactions seen from outside: listed, described, found hanging, aborted.

use std::time::Duration;

use millstream_protocol::records::Compression;
use millstream_protocol::{ErrorCode, IsolationLevel};
use millstream_protocol_client::{AbortTransaction, ClientError, OffsetSpec, TransactionFilter};
use millstream_testcontainers::JavaRecord;
use millstream_tests::raw_producer::produce_unregistered;
use millstream_tests::records::send;

use crate::fixtures::{code, kafka, new_topic, only, partition, run, unique};

fn record() -> JavaRecord {
    JavaRecord { partition: Some(0), value: Some(b"value".to_vec()), ..JavaRecord::default() }
}

#[test]
fn open_transaction_is_listed_and_described() {
    let Some(cluster) = kafka("open_transaction_is_listed_and_described") else { return };
    run(cluster, |client| async move {
        let topic = new_topic(&client, 2, &[]).await;
        let id = unique("id");
        let producer = client.producer(Some(&id));
        let identity = producer.init_transactions().await.unwrap();
        producer.begin_transaction(1).unwrap();
        send(&producer, &topic, Compression::None, &[record()], 1).await;

        let described = only(client.describe_transactions(&[&id]).await).unwrap();
        assert_eq!(described.state, "Ongoing");
        assert_eq!(described.producer, identity);
        assert_eq!(described.partitions, [partition(&topic, 0)]);
        assert_eq!(described.timeout, Duration::from_secs(60));
        assert!(described.start_time_ms.is_some());
        let filter = TransactionFilter {
            states: vec!["Ongoing".to_owned()],
            producer_ids: vec![identity.producer_id],
            ..TransactionFilter::default()
        };
        let listed = client.list_transactions(&filter).await.unwrap();
        let listed: Vec<_> =
            listed.iter().map(|l| (l.transactional_id.as_str(), l.coordinator)).collect();
        assert_eq!(listed, [(id.as_str(), 1)]);
        let javas = cluster.list_transactions().unwrap();
        let javas = javas.iter().find(|listed| listed.transactional_id == id).unwrap();
        assert_eq!((javas.producer_id, javas.state.as_str()), (identity.producer_id, "Ongoing"));
        let long = Some(Duration::from_secs(3600));
        let long = TransactionFilter { running_longer_than: long, ..filter };
        assert_eq!(client.list_transactions(&long).await.unwrap(), []);

        let producers = client.describe_producers(&[partition(&topic, 0)]).await.unwrap();
        let producers = only(producers).unwrap();
        assert_eq!(producers.len(), 1);
        assert_eq!(producers[0].producer_id, identity.producer_id);
        assert_eq!(producers[0].producer_epoch, identity.producer_epoch);
        assert_eq!(producers[0].transaction_start_offset, Some(0));
        assert_eq!((producers[0].last_sequence, producers[0].coordinator_epoch), (0, None));
        // It is in good hands, however long it takes.
        let hanging =
            client.find_hanging_transactions(&[partition(&topic, 0)], Duration::ZERO).await;
        assert_eq!(hanging.unwrap(), []);
        producer.commit_transaction(Duration::from_secs(60)).await.unwrap();
    });
}

#[test]
fn unknown_ids_states_and_partitions_are_named() {
    let Some(cluster) = kafka("unknown_ids_states_and_partitions_are_named") else { return };
    run(cluster, |client| async move {
        let described = only(client.describe_transactions(&["nobody"]).await);
        assert_eq!(code(&described), ErrorCode::TRANSACTIONAL_ID_NOT_FOUND);
        let text = described.unwrap_err().to_string();
        assert!(text.starts_with("describe the transaction of 'nobody': "), "{text}");
        let states = vec!["Sleeping".to_owned()];
        let filter = TransactionFilter { states, ..TransactionFilter::default() };
        let listed = client.list_transactions(&filter).await.unwrap_err().to_string();
        assert!(listed.contains("Sleeping"), "{listed}");
        let producers = client.describe_producers(&[partition("no-such-topic", 0)]).await;
        let producers = only(producers.unwrap());
        assert!(matches!(producers, Err(ClientError::UnknownTopic { .. })), "{producers:?}");
    });
}

#[test]
fn hanging_transaction_is_found_and_aborted() {
    let Some(cluster) = kafka("hanging_transaction_is_found_and_aborted") else { return };
    run(cluster, |client| async move {
        let topic = new_topic(&client, 2, &[]).await;
        let hanging_in = partition(&topic, 1);
        let id = unique("id");
        client.producer(Some(&id)).init_transactions().await.unwrap();
        let identity = client.producer(Some(&id)).init_transactions().await.unwrap();
        assert_eq!(identity.producer_epoch, 1, "a second owner");
        produce_unregistered(&cluster.direct_bootstrap_servers(), &hanging_in, &id, identity);

        let all = [partition(&topic, 0), hanging_in.clone()];
        let young = client.find_hanging_transactions(&all, Duration::from_secs(3_600_000_000));
        assert_eq!(young.await.unwrap(), [], "its last record is too young");
        let found = client.find_hanging_transactions(&all, Duration::from_secs(900)).await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].partition, hanging_in);
        assert_eq!(found[0].transactional_id.as_deref(), Some(id.as_str()));
        assert_eq!(found[0].producer.producer_id, identity.producer_id);
        let servers = cluster.tool_bootstrap_servers();
        let args = ["--bootstrap-server", &servers, "find-hanging", "--topic", &topic];
        let class = "org.apache.kafka.tools.TransactionsCommand";
        let javas = cluster.run_tool(class, &args).unwrap().stdout;
        assert!(javas.contains(&format!("{topic}\t1")) || javas.contains(&topic), "{javas}");

        let end = async |isolation| {
            let asked = [(hanging_in.clone(), OffsetSpec::Latest)];
            only(client.list_offsets(&asked, isolation).await.unwrap()).offset
        };
        assert_eq!(end(IsolationLevel::ReadCommitted).await, 0, "readers wait before it");
        // An older owner has nothing to say any more.
        let older =
            AbortTransaction { producer_epoch: identity.producer_epoch - 1, ..found[0].abort() };
        let refused = client.abort_transaction(&older).await;
        assert_eq!(code(&refused), ErrorCode::INVALID_PRODUCER_EPOCH);
        assert_eq!(end(IsolationLevel::ReadCommitted).await, 0);

        client.abort_transaction(&found[0].abort()).await.unwrap();
        assert_eq!(end(IsolationLevel::ReadCommitted).await, 2, "the record and its marker");
        let left = client.find_hanging_transactions(&all, Duration::from_secs(900)).await;
        assert_eq!(left.unwrap(), []);
    });
}
