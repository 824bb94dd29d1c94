use super::*;

#[test]
fn kafkas_names_set_typed_fields() {
    let mut config = ClientConfig::new("a:9092");
    config
        .set_all([
            ("bootstrap.servers", " b:1 , [::1]:9092,PLAINTEXT://c:3"),
            ("client.id", "job,ws_az=eu1"),
            ("request.timeout.ms", "1500"),
            ("isolation.level", "read_uncommitted"),
            ("fetch.max.bytes", "1024"),
            ("acks", "-1"),
            ("security.protocol", "plaintext"),
            ("receive.buffer.bytes", "-1"),
            ("send.buffer.bytes", "131072"),
            ("compression.type", "zstd"),
        ])
        .unwrap();
    let mut expected = ClientConfig::new("b:1,[::1]:9092,PLAINTEXT://c:3");
    expected.client_id = "job,ws_az=eu1".to_owned();
    expected.request_timeout = Duration::from_millis(1500);
    expected.isolation_level = IsolationLevel::ReadUncommitted;
    expected.fetch_max_bytes = 1024;
    expected.send_buffer_bytes = Some(131_072);
    expected.compression_type = Compression::Zstd;
    expected.explicit.clone_from(&config.explicit);
    assert_eq!(config, expected);
    assert!(config.is_explicit("acks"));
    assert!(!config.is_explicit("linger.ms"));
    let addresses: Vec<_> = config
        .bootstrap_addresses()
        .unwrap()
        .into_iter()
        .map(|(h, p)| format!("{h} {p}"))
        .collect();
    assert_eq!(addresses, ["b 1", "::1 9092", "c 3"]);
}

fn refusal(name: &str, value: &str) -> String {
    let mut config = ClientConfig::new("a:9092");
    let before = config.clone();
    let error = config.set(name, value).unwrap_err();
    assert_eq!(config, before, "a refused property changes nothing");
    error.to_string()
}

#[test]
fn unknown_names_are_refused_with_the_nearest_known_one() {
    assert_eq!(
        refusal("transaction.timeout.m", "1"),
        "unknown property 'transaction.timeout.m': did you mean 'transaction.timeout.ms'?"
    );
    assert_eq!(
        refusal("bootstrap.server", "1"),
        "unknown property 'bootstrap.server': did you mean 'bootstrap.servers'?"
    );
    assert_eq!(refusal("qwertyuiop", "1"), "unknown property 'qwertyuiop'");
}

#[test]
fn known_properties_that_would_be_lost_are_refused_with_the_reason() {
    for (name, value, part) in [
        ("sasl.mechanism", "GSSAPI", "Kerberos"),
        ("sasl.kerberos.service.name", "kafka", "Kerberos"),
        ("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required;", "Kerberos"),
        ("sasl.login.class", "org.example.L", "Java classes"),
        ("sasl.login.callback.handler.class", "org.example.H", "Java classes"),
        ("ssl.enabled.protocols", "TLSv1.1", "below TLSv1.2"),
        ("enable.ssl.certificate.verification", "false", "always verified"),
        ("config.providers", "env,vault", "env and file"),
        ("acks", "1", "acks=all"),
        ("enable.idempotence", "false", "always idempotent"),
        ("transactional.id", "x", "names its id"),
        ("partitioner.class", "org.example.P", "Java classes"),
    ] {
        let text = refusal(name, value);
        assert!(text.contains("is not supported") && text.contains(part), "{name}: {text}");
    }
}

#[test]
fn secrets_are_not_repeated_in_errors() {
    for (name, value) in [
        ("sasl.jaas.config", "org.example.PlainLoginModule required password=\"hunter2\""),
        ("sasl.jaas.config", "PlainLoginModule wrong password=\"hunter2\";"),
        ("ssl.key.location", "/hunter2"),
        ("sasl.oauthbearer.extensions", "hunter2"),
        ("sasl.oauthbearer.assertion.private.key.passphrase", "hunter2"),
        ("sasl.mechanism", "${file:/no/such/hunter2-not-read:key}"),
    ] {
        let text = refusal(name, value);
        assert!(!text.replace("/no/such/hunter2", "").contains("hunter2"), "{text}");
    }
}

#[test]
fn a_login_module_that_can_not_be_read_is_refused_with_the_place() {
    assert_eq!(
        refusal("sasl.jaas.config", "PlainLoginModule required password=\"hunter2\""),
        "property 'sasl.jaas.config' = '…' is not valid: expected one login module; at character 45: the text must end with ';'"
    );
}

#[test]
fn values_come_from_the_environment_and_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.properties");
    std::fs::write(&file, "password = p:w=1\nuser=u").unwrap();
    let file = file.display();
    let mut config = ClientConfig::new("a:9092");
    // PATH is set wherever tests run.
    config.set("client.id", "x-${env:PATH}-${other:a:b}").unwrap();
    let path = std::env::var("PATH").unwrap();
    assert_eq!(config.client_id, format!("x-{path}-${{other:a:b}}"));
    let module = format!(
        "PlainLoginModule required username=\"${{file:{file}:user}}\" password=\"${{file:{file}:password}}\";"
    );
    config.set("sasl.jaas.config", &module).unwrap();
    let jaas = config.sasl.jaas.clone().unwrap();
    assert_eq!(jaas.option("username").unwrap().expose(), "u");
    assert_eq!(jaas.option("password").unwrap().expose(), "p:w=1");
    for (value, expected) in [
        (
            "${env:MILLSTREAM_NO_SUCH_VARIABLE}".to_owned(),
            "property 'client.id': the environment variable MILLSTREAM_NO_SUCH_VARIABLE is not set (or not UTF-8)".to_owned(),
        ),
        (
            format!("${{file:{file}:missing}}"),
            format!("property 'client.id': {file} has no property 'missing'"),
        ),
    ] {
        assert_eq!(refusal("client.id", &value), expected);
    }
}

#[test]
fn security_properties_set_typed_fields() {
    use crate::{StoreType, TlsVersion};
    let mut config = ClientConfig::new("a:9092");
    config
        .set_all([
            ("security.protocol", "sasl_ssl"),
            ("sasl.mechanism", "SCRAM-SHA-512"),
            ("ssl.truststore.type", "jks"),
            ("ssl.truststore.location", "/t.jks"),
            ("ssl.enabled.protocols", "TLSv1.3,TLSv1.1"),
            ("ssl.endpoint.identification.algorithm", ""),
            ("sasl.login.refresh.window.factor", "0.9"),
            (
                "sasl.login.callback.handler.class",
                "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
            ),
        ])
        .unwrap();
    assert_eq!(config.security_protocol, SecurityProtocol::SaslSsl);
    assert_eq!(config.sasl.mechanism.unwrap().name(), "SCRAM-SHA-512");
    assert_eq!(config.tls.truststore.store_type, Some(StoreType::Jks));
    assert_eq!(config.tls.enabled_versions, [TlsVersion::V1_3]);
    assert!(!config.tls.endpoint_identification && config.sasl.aws_bearer_token);
    config.set("ssl.protocol", "TLSv1.2").unwrap();
    assert_eq!(config.tls.enabled_versions, [TlsVersion::V1_2]);
}

/// Aliases, in their units; Kafka's own name wins whatever the order, and the other is told of.
#[test]
fn librdkafkas_names_are_taken_and_kafkas_win() {
    let mut config = ClientConfig::new("a:9092");
    config
        .set_all([
            ("metadata.broker.list", "b:1,c:2"),
            ("queue.buffering.max.ms", "0.5"),
            ("queue.buffering.max.kbytes", "2048"),
            ("socket.send.buffer.bytes", "0"),
            ("message.timeout.ms", "45000"),
            ("request.required.acks", "-1"),
            ("message.send.max.retries", "3"),
            ("compression.codec", "lz4"),
            ("auto.offset.reset", "smallest"),
            ("sasl.mechanisms", "PLAIN"),
            ("ssl.ca.location", "/ca.pem"),
            ("oauth.logical.cluster", "lkc-1"),
            ("statistics.interval.ms", "5000"),
            ("partitioner", "murmur2_random"),
        ])
        .unwrap();
    assert_eq!(config.bootstrap_servers, ["b:1", "c:2"]);
    assert_eq!(config.linger, Duration::from_millis(1));
    assert_eq!(config.buffer_memory, 2 << 20);
    assert_eq!(config.send_buffer_bytes, None);
    assert_eq!(config.delivery_timeout, Duration::from_secs(45));
    assert_eq!(config.compression_type, Compression::Lz4);
    assert_eq!(config.auto_offset_reset, OffsetReset::Earliest);
    assert_eq!(config.sasl.mechanism.unwrap().name(), "PLAIN");
    assert_eq!(config.tls.truststore.location.as_deref(), Some("/ca.pem".as_ref()));
    assert_eq!(config.sasl.extensions["logicalCluster"], "lkc-1");
    assert!(config.is_explicit("linger.ms") && !config.is_explicit("queue.buffering.max.ms"));

    config.set("linger.ms", "7").unwrap();
    config.set("queue.buffering.max.ms", "9").unwrap();
    assert_eq!(config.linger, Duration::from_millis(7));
    let names: Vec<_> = config.ignored().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["retries", "statistics.interval.ms", "queue.buffering.max.ms"]);

    assert_eq!(
        refusal("queue.buffering.max.ms", "soon"),
        "property 'queue.buffering.max.ms' = 'soon' is not valid: expected a number from 0 to 900000 (milliseconds)"
    );
    assert_eq!(
        refusal("socket.timeout.ms", "0"),
        "property 'socket.timeout.ms' = '0' is not valid: expected a whole number from 1 to 2147483647 (milliseconds)"
    );
    assert!(refusal("partitioner", "consistent_random").contains("murmur2_random"));
    assert!(refusal("message.send.max.retries", "0").contains("without a repetition"));
    assert_eq!(
        refusal("metadata.broker.lists", "x"),
        "unknown property 'metadata.broker.lists': did you mean 'metadata.broker.list'?"
    );
}

#[test]
fn every_alias_stands_for_a_property_of_kafkas_and_is_none_itself() {
    for alias in property_aliases() {
        let find = |name| properties().iter().find(|property| property.name == name);
        assert!(find(alias.property).is_some(), "{} is no property", alias.property);
        assert!(find(alias.name).is_none(), "{} is there twice", alias.name);
    }
    assert!(property_aliases().is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn levels_belong_to_their_codec() {
    let mut config = ClientConfig::new("a:9092");
    config.set_all([("compression.gzip.level", "9"), ("compression.zstd.level", "-5")]).unwrap();
    assert_eq!(config.compression_level(), None);
    config.set("compression.type", "gzip").unwrap();
    assert_eq!(config.compression_level(), Some(9));
    config.set("compression.type", "zstd").unwrap();
    assert_eq!(config.compression_level(), Some(-5));
    config.set("compression.gzip.level", "-1").unwrap();
    assert_eq!(config.compression_gzip_level, None);
    assert!(refusal("compression.zstd.level", "23").contains("from -131072 to 22"));
}

/// KIP-1106.
#[test]
fn reading_may_start_so_long_ago() {
    let mut config = ClientConfig::new("a:9092");
    let mut reset = |value: &str| {
        config
            .set("auto.offset.reset", &format!("by_duration:{value}"))
            .map(|()| config.auto_offset_reset)
    };
    for (text, seconds) in
        [("P3D", 3.0 * 86_400.0), ("PT1H30M", 5400.0), ("P1DT0.25S", 86_400.25), ("PT0S", 0.0)]
    {
        let age = Duration::from_secs_f64(seconds);
        assert_eq!(reset(text), Ok(OffsetReset::ByDuration(age)), "{text}");
    }
    for text in
        ["", "P", "PT", "1D", "P1DT", "PT1M1H", "P-1D", "PT1.5H", "P1Y", "P99999999999999999D"]
    {
        let error = reset(text).unwrap_err().to_string();
        assert!(error.contains("by_duration:PnDTnHnMnS"), "{text}: {error}");
    }
}

#[test]
fn a_builder_tells_the_first_refusal_and_validates() {
    let config = ClientConfig::builder("a:1")
        .client_rack("rack-2".to_owned())
        .linger(Duration::from_millis(3))
        .property("isolation.level", "read_uncommitted")
        .build()
        .unwrap();
    assert_eq!(config.client_rack.as_deref(), Some("rack-2"));
    assert_eq!(config.fetch_config().rack_id.as_ref(), "rack-2");
    assert_eq!(config.isolation_level, IsolationLevel::ReadUncommitted);
    let refused = ClientConfig::builder("a:1").property("x", "1").property("acks", "0").build();
    assert!(matches!(refused, Err(ConfigError::Unknown { .. })), "{refused:?}");
    let invalid = ClientConfig::builder("nowhere").build();
    assert!(matches!(invalid, Err(ConfigError::Invalid { .. })), "{invalid:?}");
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (name, value) in [
        ("request.timeout.ms", "0"),
        ("request.timeout.ms", "-5"),
        ("request.timeout.ms", "ten"),
        ("max.in.flight.requests.per.connection", "6"),
        ("fetch.max.bytes", "99999999999"),
        ("bootstrap.servers", "localhost"),
        ("bootstrap.servers", "::1:9092"),
        ("bootstrap.servers", "http://x:1"),
        ("bootstrap.servers", ""),
        ("compression.type", "brotli"),
        ("exclude.internal.topics", "yes"),
    ] {
        let text = refusal(name, value);
        assert!(text.contains("is not valid: expected"), "{name}: {text}");
    }
}

#[test]
fn properties_without_effect_are_listed() {
    let mut config = ClientConfig::new("a:9092");
    config.set("max.poll.records", "500").unwrap();
    assert_eq!(config.ignored(), [("max.poll.records", "records come in whole batches")]);
}

#[test]
fn the_table_is_sorted_and_has_no_duplicates() {
    let names: Vec<_> = properties().iter().map(|property| property.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
}

#[test]
fn validation_names_what_contradicts() {
    assert!(ClientConfig::new("").validate().is_err());
    let mut config = ClientConfig::new("a:1");
    config.validate().unwrap();
    config.set("delivery.timeout.ms", "1000").unwrap();
    assert_eq!(
        config.validate().unwrap_err().to_string(),
        "property 'delivery.timeout.ms' = '1000' is not valid: expected at least linger.ms + request.timeout.ms"
    );
}

#[test]
fn group_properties_are_typed_and_java_class_names_are_taken() {
    let mut config = ClientConfig::new("a:9092");
    config
        .set_all([
            ("group.id", "billing"),
            ("group.instance.id", "i-1"),
            ("session.timeout.ms", "10000"),
            ("heartbeat.interval.ms", "2000"),
            ("max.poll.interval.ms", "60000"),
            ("enable.auto.commit", "false"),
            ("auto.commit.interval.ms", "1000"),
            (
                "partition.assignment.strategy",
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range",
            ),
        ])
        .unwrap();
    let group = config.group_config(&Arc::from("billing"));
    assert_eq!(group.assignors, [Assignor::CooperativeSticky, Assignor::Range]);
    assert_eq!(group.group_instance_id.as_deref(), Some("i-1"));
    assert_eq!(group.session_timeout, Duration::from_secs(10));
    assert!(!config.enable_auto_commit);
    assert_eq!(config.validate_group(), Ok(()));
    assert_eq!(
        refusal("partition.assignment.strategy", "com.example.Mine"),
        "property 'partition.assignment.strategy' = 'com.example.Mine' is not valid: expected a list of range, roundrobin, sticky, cooperative-sticky (or Java's classes): 'com.example.Mine' is none of range, roundrobin, sticky, cooperative-sticky"
    );
}

#[test]
fn a_group_property_of_the_other_protocol_is_refused() {
    let invalid = |properties: &[(&str, &str)]| {
        let mut config = ClientConfig::new("a:9092");
        config.set_all(properties.iter().copied()).unwrap();
        match config.validate_group() {
            Err(ConfigError::Invalid { name, .. }) => Some(name),
            _ => None,
        }
    };
    let consumer = ("group.protocol", "consumer");
    for (name, value) in [
        ("session.timeout.ms", "10000"),
        ("heartbeat.interval.ms", "2000"),
        ("partition.assignment.strategy", "range"),
    ] {
        assert_eq!(invalid(&[consumer, (name, value)]), Some(name));
        assert_eq!(invalid(&[(name, value)]), None);
    }
    assert_eq!(invalid(&[("group.remote.assignor", "uniform")]), Some("group.remote.assignor"));
    assert_eq!(invalid(&[consumer, ("group.remote.assignor", "uniform")]), None);
    assert_eq!(invalid(&[("session.timeout.ms", "3000")]), Some("heartbeat.interval.ms"));
}

#[test]
fn the_document_lists_every_property_as_it_is() {
    let document = include_str!("../../../docs/options.md");
    let (_, chapter) = document.split_once("## Properties of Kafka clients").expect("the chapter");
    let (mut section, mut listed) = ("", std::collections::BTreeMap::new());
    for line in chapter.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            section = heading;
        } else if line.starts_with("| `") {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let name = cells[0].trim_matches('`');
            assert!(listed.insert(name, (section, cells)).is_none(), "{name} is there twice");
        }
    }
    for property in properties() {
        let name = property.name;
        let (section, cells) = listed.remove(name).unwrap_or_else(|| panic!("{name} is missing"));
        match property.effect {
            PropertyEffect::Honoured => assert_as_documented(name, &cells),
            PropertyEffect::Ignored(reason) => {
                assert_eq!((section, cells[1]), ("Taken, without effect", reason), "{name}");
            }
            PropertyEffect::Refused(reason) => {
                assert_eq!((section, cells[1]), ("Refused", reason), "{name}");
            }
        }
    }
    for alias in property_aliases() {
        let (section, cells) = listed.remove(alias.name).expect(alias.name);
        assert_eq!((section, cells[1].trim_matches('`')), ("Other names", alias.property));
    }
    assert!(listed.is_empty(), "no such properties: {:?}", listed.keys());
}

/// Its default is what a new configuration has; its bounds are the last values that are taken.
fn assert_as_documented(name: &str, cells: &[&str]) {
    let [_, value, default, _] = cells[..] else { panic!("four cells of {name}: {cells:?}") };
    if default.starts_with('`') {
        let mut config = ClientConfig::new("a:9092");
        config.set(name, default.trim_matches('`')).unwrap();
        config.explicit.clear();
        assert_eq!(config, ClientConfig::new("a:9092"), "the default of {name}");
    }
    let Some((_, bounds)) = value.split_once("from `") else { return };
    let (least, rest) = bounds.split_once("` to `").expect("two bounds");
    let most = rest.trim_end_matches('`');
    let takes = |value: &str| ClientConfig::new("a:9092").set(name, value).is_ok();
    assert!(takes(least) && takes(most), "{name} is {value}");
    if let (Ok(least), Ok(most)) = (least.parse::<i128>(), most.parse::<i128>()) {
        let beyond = [least - 1, most + 1];
        assert!(!beyond.iter().any(|value| takes(&value.to_string())), "{name} is {value}");
    }
}
