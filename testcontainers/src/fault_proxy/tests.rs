use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::api_key::{END_TXN, METADATA, PRODUCE};
use super::*;

const LIMIT: Duration = Duration::from_secs(20);

/// A broker that answers each request with its correlation id, and reports the API keys that reach it.
struct EchoBroker {
    port: u16,
    seen: Receiver<i16>,
}

impl EchoBroker {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (report, seen) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let report = report.clone();
                std::thread::spawn(move || {
                    while let Some(frame) = read_frame(&mut stream) {
                        let api = i16::from_be_bytes(*frame.first_chunk().unwrap());
                        if report.send(api).is_err()
                            || write_frame(&mut stream, &frame[4..8]).is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, seen }
    }

    fn next_seen(&self) -> i16 {
        self.seen.recv_timeout(LIMIT).expect("no request reached the broker")
    }
}

fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn write_frame(stream: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    let size = u32::try_from(frame.len()).unwrap().to_be_bytes();
    stream.write_all(&[&size, frame].concat())
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn send(stream: &mut TcpStream, api: i16, correlation_id: i32) {
    let frame = [&api.to_be_bytes()[..], &[0, 0], &correlation_id.to_be_bytes(), &[0, 0]].concat();
    write_frame(stream, &frame).unwrap();
}

fn answer(stream: &mut TcpStream) -> Option<i32> {
    read_frame(stream).map(|frame| i32::from_be_bytes(frame.try_into().unwrap()))
}

#[test]
fn frames_pass_unchanged_without_rules() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let mut client = connect(&proxy);
    for id in 0..100 {
        send(&mut client, METADATA, id);
    }
    for id in 0..100 {
        assert_eq!(answer(&mut client), Some(id));
    }
    assert_eq!(proxy.request_count(METADATA), 100);
    assert_eq!(proxy.connection_count(), 1);
}

#[test]
fn held_request_reaches_the_broker_after_its_client_died() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let rule = proxy.add_rule(FaultRule::requests(END_TXN).hold());
    let mut client = connect(&proxy);
    send(&mut client, PRODUCE, 1);
    assert_eq!(answer(&mut client), Some(1));
    send(&mut client, END_TXN, 2);
    assert!(rule.blocking_wait_for(1, LIMIT));
    drop(client);
    assert_eq!(broker.next_seen(), PRODUCE);
    assert!(broker.seen.try_recv().is_err());
    rule.release();
    assert_eq!(broker.next_seen(), END_TXN);
}

#[test]
fn held_response_is_delivered_when_the_rule_goes() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let rule = proxy.add_rule(FaultRule::responses(END_TXN).hold());
    let mut client = connect(&proxy);
    send(&mut client, END_TXN, 7);
    assert!(rule.blocking_wait_for(1, LIMIT));
    client.set_nonblocking(true).unwrap();
    assert!(client.read(&mut [0]).is_err());
    client.set_nonblocking(false).unwrap();
    drop(rule);
    assert_eq!(answer(&mut client), Some(7));
}

#[test]
fn cut_before_loses_the_request_and_cut_after_only_its_answer() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let before = proxy.add_rule(FaultRule::requests(END_TXN).times(1).cut_before());
    let after = proxy.add_rule(FaultRule::requests(END_TXN).times(1).cut_after());
    let mut client = connect(&proxy);
    send(&mut client, END_TXN, 1);
    assert_eq!(answer(&mut client), None);
    assert!(broker.seen.try_recv().is_err());
    let mut client = connect(&proxy);
    send(&mut client, END_TXN, 2);
    assert_eq!(answer(&mut client), None);
    assert_eq!(broker.next_seen(), END_TXN);
    assert_eq!((before.matched(), after.matched()), (1, 1));
    let mut client = connect(&proxy);
    send(&mut client, END_TXN, 3);
    assert_eq!(answer(&mut client), Some(3));
}

#[test]
fn skipped_frames_pass_before_the_rule_acts() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let _rule = proxy.add_rule(FaultRule::responses(PRODUCE).skip(2).cut_before());
    let mut client = connect(&proxy);
    for id in 0..3 {
        send(&mut client, PRODUCE, id);
    }
    assert_eq!(answer(&mut client), Some(0));
    assert_eq!(answer(&mut client), Some(1));
    assert_eq!(answer(&mut client), None);
}

#[test]
fn blackhole_keeps_connections_and_loses_nothing_in_the_end() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let mut client = connect(&proxy);
    send(&mut client, PRODUCE, 1);
    assert_eq!(answer(&mut client), Some(1));
    assert_eq!(broker.next_seen(), PRODUCE);
    proxy.start_blackhole();
    let counted = proxy.add_rule(FaultRule::requests(PRODUCE));
    send(&mut client, PRODUCE, 2);
    assert!(counted.blocking_wait_for(1, LIMIT));
    assert!(broker.seen.try_recv().is_err());
    proxy.end_blackhole();
    assert_eq!(answer(&mut client), Some(2));
}

#[test]
fn cut_and_rejected_connections_end_for_the_client() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let mut client = connect(&proxy);
    send(&mut client, PRODUCE, 1);
    assert_eq!(answer(&mut client), Some(1));
    proxy.cut_connections();
    assert_eq!(answer(&mut client), None);
    proxy.reject_connections(true);
    assert_eq!(answer(&mut connect(&proxy)), None);
    proxy.reject_connections(false);
    let mut client = connect(&proxy);
    send(&mut client, PRODUCE, 2);
    assert_eq!(answer(&mut client), Some(2));
}

#[test]
fn other_protocols_pass_as_they_are() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap().port()).unwrap();
    let mut client = connect(&proxy);
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut server = listener.accept().unwrap().0;
    let mut request = [0; 18];
    server.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"GET / HTTP/1.0\r\n\r\n");
    server.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").unwrap();
    drop(server);
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "HTTP/1.0 400 Bad Request\r\n\r\n");
}

#[test]
fn responses_are_doubled_put_in_another_order_and_replaced() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let mut client = connect(&proxy);
    let doubled = proxy.add_rule(FaultRule::responses(PRODUCE).times(1).twice());
    send(&mut client, PRODUCE, 1);
    assert_eq!([answer(&mut client), answer(&mut client)], [Some(1); 2]);
    drop(doubled);
    let behind = proxy.add_rule(FaultRule::responses(PRODUCE).times(1).behind_next());
    send(&mut client, PRODUCE, 2);
    assert!(behind.blocking_wait_for(1, LIMIT));
    send(&mut client, PRODUCE, 3);
    assert_eq!([answer(&mut client), answer(&mut client)], [Some(3), Some(2)]);
    let _replaced = proxy.add_rule(FaultRule::responses(PRODUCE).replace(*b"other"));
    send(&mut client, PRODUCE, 4);
    assert_eq!(read_frame(&mut client).unwrap(), b"\0\0\0\x04other");
}

#[test]
fn versions_of_requests_are_noted_by_client() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let mut client = connect(&proxy);
    send(&mut client, PRODUCE, 1);
    assert_eq!(answer(&mut client), Some(1));
    assert_eq!(proxy.request_versions("", PRODUCE), [0].into());
    assert_eq!(proxy.request_versions("", METADATA), [].into());
    assert_eq!(proxy.request_versions("other", PRODUCE), [].into());
}

#[test]
fn a_rule_for_one_client_leaves_the_others_alone() {
    let broker = EchoBroker::start();
    let proxy = FaultProxy::start(broker.port).unwrap();
    let mut client = connect(&proxy);
    let of_other = proxy.add_rule(FaultRule::requests(PRODUCE).of_client("a").cut_before());
    send(&mut client, PRODUCE, 1);
    assert_eq!(answer(&mut client), Some(1));
    let frame = [&PRODUCE.to_be_bytes()[..], &[0, 0, 0, 0, 0, 2, 0, 1, b'a']].concat();
    write_frame(&mut client, &frame).unwrap();
    assert_eq!(answer(&mut client), None);
    assert_eq!(of_other.matched(), 1);
}
