import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.zip.GZIPInputStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own client for interoperability tests: one command a line on standard input, JSON lines on standard output. The last
 * line of an answer has the field "done" or "error". Bytes are hexadecimal text, null is null. Ends with its standard input.
 */
public final class InteropClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    /**
     * Producers whose transaction was left open, by cluster and transactional id; a later command with both goes on with it.
     * Tests that run side by side use the same ids on clusters of their own.
     */
    private final Map<String, KafkaProducer<byte[], byte[]>> open = new HashMap<>();
    private GroupMember member;

    public static void main(String[] args) throws Exception {
        InteropClient client = new InteropClient();
        // Standard output is for answers; what the client logs goes to the file that standard error is.
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode command = JSON.readTree(line);
                client.run(command, answer);
                answer.put("done", true);
            } catch (Exception e) {
                Throwable cause = e instanceof java.util.concurrent.ExecutionException && e.getCause() != null ? e.getCause() : e;
                answer.removeAll();
                answer.put("error", cause.getClass().getName() + ": " + cause.getMessage());
            }
            client.print(answer);
            client.out.flush();
        }
        System.exit(0);
    }

    private void run(JsonNode command, ObjectNode answer) throws Exception {
        switch (command.get("op").asText()) {
            case "produce" -> produce(command, answer);
            case "feed" -> feed(command, answer);
            case "consume" -> consume(command);
            case "transactions" -> transactions(command, answer);
            case "createTopic" -> createTopic(command);
            case "deleteTopic" -> deleteTopic(command);
            case "joinGroup" -> joinGroup(command);
            case "leaveGroup" -> leaveGroup();
            case "assign" -> assign(command, answer);
            case "committed" -> committed(command, answer);
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private void produce(JsonNode command, ObjectNode answer) throws Exception {
        String transactionalId = command.path("transactionalId").asText(null);
        String end = command.path("end").asText("commit");
        String openKey = command.get("bootstrap").asText() + " " + transactionalId;
        KafkaProducer<byte[], byte[]> producer = transactionalId == null ? null : open.remove(openKey);
        boolean goesOn = producer != null;
        if (!goesOn) {
            Properties properties = properties(command);
            properties.put("compression.type", command.path("codec").asText("none"));
            if (transactionalId != null) {
                properties.put("transactional.id", transactionalId);
            }
            // Records of one command share batches, unless the test asks otherwise.
            properties.put("linger.ms", "20");
            command.path("properties").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
            producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        }
        boolean keep = transactionalId != null && end.equals("open");
        try {
            if (transactionalId != null && !goesOn) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            String topic = command.get("topic").asText();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : command.get("records")) {
                Integer partition = record.path("partition").isInt() ? (Integer) record.get("partition").asInt() : null;
                Long timestamp = record.path("timestamp").isNumber() ? (Long) record.get("timestamp").asLong() : null;
                ProducerRecord<byte[], byte[]> r =
                    new ProducerRecord<>(topic, partition, timestamp, bytes(record.path("key")), bytes(record.path("value")));
                for (JsonNode header : record.path("headers")) {
                    r.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(r));
            }
            producer.flush();
            ArrayNode offsets = answer.putArray("offsets");
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata metadata = future.get();
                offsets.addArray().add(metadata.partition()).add(metadata.offset());
            }
            if (transactionalId != null && end.equals("commit")) {
                producer.commitTransaction();
            } else if (transactionalId != null && end.equals("abort")) {
                producer.abortTransaction();
            }
        } finally {
            if (keep) {
                open.put(openKey, producer);
            } else {
                producer.close(Duration.ofSeconds(10));
            }
        }
    }

    /** Produces the lines of a gzip file as values, line i to partition i modulo their number, spread evenly over a time. */
    private void feed(JsonNode command, ObjectNode answer) throws Exception {
        Properties properties = properties(command);
        properties.put("compression.type", command.path("codec").asText("none"));
        properties.put("linger.ms", "5");
        properties.put("delivery.timeout.ms", "600000");
        String topic = command.get("topic").asText();
        List<byte[]> lines = new ArrayList<>();
        try (BufferedReader in = new BufferedReader(new InputStreamReader(
                new GZIPInputStream(new FileInputStream(command.get("file").asText())), StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                lines.add(line.getBytes(StandardCharsets.UTF_8));
            }
        }
        int count = (int) Math.min(lines.size(), command.path("lines").asLong(Long.MAX_VALUE));
        double nanosPerLine = command.path("overMs").asLong(0) * 1e6 / Math.max(1, count);
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            int partitions = producer.partitionsFor(topic).size();
            long start = System.nanoTime();
            for (int i = 0; i < count && failure.get() == null; i++) {
                long ahead = (long) (i * nanosPerLine) - (System.nanoTime() - start);
                if (ahead > 1_000_000) {
                    Thread.sleep(ahead / 1_000_000);
                }
                producer.send(new ProducerRecord<>(topic, i % partitions, null, lines.get(i)), (metadata, e) -> {
                    if (e != null) {
                        failure.compareAndSet(null, e);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        answer.put("count", count);
    }

    private void consume(JsonNode command) throws Exception {
        Properties properties = properties(command);
        properties.put("isolation.level", command.path("isolation").asText("read_committed"));
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("allow.auto.create.topics", "false");
        long deadline = System.nanoTime() + Duration.ofMillis(command.path("limitMs").asLong(60_000)).toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(command.get("topic").asText())) {
                partitions.add(new TopicPartition(info.topic(), info.partition()));
            }
            if (partitions.isEmpty()) {
                throw new IllegalArgumentException("there is no topic " + command.get("topic"));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            // Under read_committed this is the last stable offset.
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (ends.entrySet().stream().anyMatch(e -> consumer.position(e.getKey()) < e.getValue())) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the end " + ends + " was not reached in time");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.offset() < ends.get(new TopicPartition(record.topic(), record.partition()))) {
                        print(json(record));
                    }
                }
            }
        }
    }

    private static ObjectNode json(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = JSON.createObjectNode();
        node.put("topic", record.topic());
        node.put("partition", record.partition());
        node.put("offset", record.offset());
        node.put("timestamp", record.timestamp());
        node.put("key", hex(record.key()));
        node.put("value", hex(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(hex(header.value()));
        }
        return node;
    }

    private void transactions(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = Admin.create(properties(command))) {
            ArrayNode list = answer.putArray("transactions");
            for (TransactionListing listing : admin.listTransactions().all().get()) {
                list.addObject()
                    .put("transactionalId", listing.transactionalId())
                    .put("producerId", listing.producerId())
                    .put("state", listing.state().toString());
            }
        }
    }

    private void createTopic(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(properties(command))) {
            Map<String, String> configs = new HashMap<>();
            command.path("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
            NewTopic topic = new NewTopic(
                command.get("topic").asText(), Optional.of(command.path("partitions").asInt(1)), Optional.empty());
            admin.createTopics(List.of(topic.configs(configs))).all().get();
        }
    }

    private void deleteTopic(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(properties(command))) {
            admin.deleteTopics(List.of(command.get("topic").asText())).all().get();
        }
    }

    /** Starts the group member of this JVM: a thread that polls, and writes what it is given into a file. */
    private void joinGroup(JsonNode command) throws Exception {
        if (member != null) {
            throw new IllegalStateException("this JVM has a member already");
        }
        Properties properties = properties(command);
        command.path("properties").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        PrintStream log = new PrintStream(command.get("log").asText(), StandardCharsets.UTF_8);
        member = new GroupMember(properties, topics, log);
        member.start();
    }

    private void leaveGroup() throws Exception {
        member.stop = true;
        member.join();
        if (member.failure.get() != null) {
            throw member.failure.get();
        }
    }

    /** Every line is a JSON list: what, when (milliseconds since 1970) or the partition, the partition or the offset. */
    private static final class GroupMember extends Thread implements ConsumerRebalanceListener {
        final AtomicReference<Exception> failure = new AtomicReference<>();
        volatile boolean stop;
        private final Properties properties;
        private final List<String> topics;
        private final PrintStream log;

        GroupMember(Properties properties, List<String> topics, PrintStream log) {
            this.properties = properties;
            this.topics = topics;
            this.log = log;
            setDaemon(true);
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(topics, this);
                while (!stop) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                        log.println("[\"record\"," + record.partition() + "," + record.offset() + "]");
                    }
                    // Before the next poll may commit it.
                    log.flush();
                }
            } catch (Exception e) {
                failure.compareAndSet(null, e);
                log.println("[\"failed\",\"" + e.getClass().getName() + "\"]");
            }
            log.flush();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            remember("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            remember("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            remember("lost", partitions);
        }

        private void remember(String what, Collection<TopicPartition> partitions) {
            for (TopicPartition partition : partitions) {
                log.println("[\"" + what + "\"," + System.currentTimeMillis() + "," + partition.partition() + "]");
            }
            log.flush();
        }
    }

    /** Runs one of Java's assignors: what each member would be given, and the bytes that would say so. */
    private void assign(JsonNode command, ObjectNode answer) throws Exception {
        ConsumerPartitionAssignor assignor =
            (ConsumerPartitionAssignor) Class.forName(command.get("assignor").asText()).getDeclaredConstructor().newInstance();
        List<PartitionInfo> infos = new ArrayList<>();
        Node node = new Node(1, "localhost", 9092);
        command.get("topics").fields().forEachRemaining(topic -> {
            for (int i = 0; i < topic.getValue().asInt(); i++) {
                infos.add(new PartitionInfo(topic.getKey(), i, node, new Node[] {node}, new Node[] {node}));
            }
        });
        Cluster cluster = new Cluster("cluster", List.of(node), infos, Set.of(), Set.of());
        Map<String, ConsumerPartitionAssignor.Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : command.get("members")) {
            // As it arrives from JoinGroup.
            ConsumerPartitionAssignor.Subscription subscription =
                ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(bytes(member.get("subscription"))));
            if (member.path("instance").isTextual()) {
                subscription.setGroupInstanceId(Optional.of(member.get("instance").asText()));
            }
            subscriptions.put(member.get("id").asText(), subscription);
        }
        Map<String, ConsumerPartitionAssignor.Assignment> assignments =
            assignor.assign(cluster, new ConsumerPartitionAssignor.GroupSubscription(subscriptions)).groupAssignment();
        ObjectNode members = answer.putObject("members");
        assignments.forEach((id, assignment) -> members.put(id, hex(array(ConsumerProtocol.serializeAssignment(assignment)))));
        // What a member that was just given its part would write into the next JoinGroup.
        ObjectNode next = answer.putObject("subscriptions");
        int generation = command.path("generation").asInt(1);
        for (JsonNode member : command.get("members")) {
            String id = member.get("id").asText();
            ConsumerPartitionAssignor its =
                (ConsumerPartitionAssignor) Class.forName(command.get("assignor").asText()).getDeclaredConstructor().newInstance();
            its.onAssignment(assignments.get(id), new ConsumerGroupMetadata("group", generation, id, Optional.empty()));
            List<String> topics = subscriptions.get(id).topics();
            ByteBuffer userData = its.subscriptionUserData(new TreeSet<>(topics));
            List<TopicPartition> owned = assignments.get(id).partitions();
            next.put(id, hex(array(ConsumerProtocol.serializeSubscription(
                new ConsumerPartitionAssignor.Subscription(topics, userData, owned, generation, Optional.empty())))));
        }
    }

    private void committed(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = Admin.create(properties(command))) {
            ArrayNode offsets = answer.putArray("offsets");
            admin.listConsumerGroupOffsets(command.get("group").asText()).partitionsToOffsetAndMetadata().get()
                .forEach((partition, offset) -> {
                    if (offset != null) {
                        offsets.addArray().add(partition.topic()).add(partition.partition()).add(offset.offset());
                    }
                });
        }
    }

    private static byte[] array(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    private static Properties properties(JsonNode command) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", command.get("bootstrap").asText());
        return properties;
    }

    private static byte[] bytes(JsonNode node) {
        return node.isTextual() ? HEX.parseHex(node.asText()) : null;
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HEX.formatHex(bytes);
    }

    private void print(JsonNode node) throws Exception {
        out.println(JSON.writeValueAsString(node));
    }
}
