import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The peer kafka-clients: reads or writes a number of records and prints one line of JSON, as every peer does. */
public final class PeerClient {
    private static final Map<String, String> OPTIONS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        for (int at = 1; at + 1 < arguments.length; at += 2) {
            OPTIONS.put(arguments[at].substring(2), arguments[at + 1]);
        }
        String outcome = switch (arguments[0]) {
            case "consume" -> consume();
            case "produce" -> produce();
            default -> throw new IllegalArgumentException("unknown verb " + arguments[0]);
        };
        System.out.println(outcome);
    }

    private static String consume() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", OPTIONS.get("bootstrap-server"));
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.bytes", 50 << 20);
        settings.put("max.partition.fetch.bytes", 4 << 20);
        settings.put("max.poll.records", 50_000);
        long wanted = Long.parseLong(OPTIONS.get("records"));
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < Integer.parseInt(OPTIONS.getOrDefault("partitions", "1")); partition++) {
            partitions.add(new TopicPartition(OPTIONS.get("topic"), partition));
        }
        Tally tally = new Tally();
        long began = 0;
        long deadline = System.nanoTime() + Duration.ofMinutes(2).toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (tally.records < wanted) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (began == 0 && !records.isEmpty()) {
                    began = System.nanoTime();
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    tally.add(record.value());
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("no more records come");
                }
            }
            return tally.outcome(System.nanoTime() - began);
        }
    }

    private static String produce() throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", OPTIONS.get("bootstrap-server"));
        settings.put("enable.idempotence", "true");
        settings.put("acks", "all");
        settings.put("linger.ms", 5);
        settings.put("batch.size", 256 << 10);
        settings.put("buffer.memory", 128L << 20);
        settings.put("compression.type", OPTIONS.getOrDefault("codec", "none"));
        long wanted = Long.parseLong(OPTIONS.get("records"));
        String topic = OPTIONS.get("topic");
        Values values = new Values(Integer.parseInt(OPTIONS.getOrDefault("value-size", "100")));
        Tally tally = new Tally();
        AtomicLong acknowledged = new AtomicLong();
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            long began = System.nanoTime();
            for (long n = 0; n < wanted; n++) {
                byte[] value = values.at(n);
                tally.add(value);
                producer.send(new ProducerRecord<>(topic, value), (metadata, exception) -> {
                    if (exception == null) {
                        acknowledged.incrementAndGet();
                    } else {
                        failure.compareAndSet(null, exception);
                    }
                });
            }
            producer.flush();
            long took = System.nanoTime() - began;
            if (failure.get() != null) {
                throw failure.get();
            }
            if (acknowledged.get() != wanted) {
                throw new IllegalStateException(acknowledged.get() + " records acknowledged");
            }
            return tally.outcome(took);
        }
    }

    /** Counts what was seen. */
    private static final class Tally {
        private static final VarHandle WORD =
                MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
        private long records;
        private long bytes;
        private long checksum;

        void add(byte[] value) {
            records++;
            bytes += value.length;
            checksum += (long) WORD.get(value, 0) + 31 * (long) WORD.get(value, value.length - 8);
        }

        String outcome(long nanoseconds) {
            return "{\"records\":" + records + ",\"bytes\":" + bytes + ",\"checksum\":\""
                    + String.format("%016x", checksum) + "\",\"seconds\":" + nanoseconds / 1e9 + "}";
        }
    }

    /** The same values in the same order as every peer writes. */
    private static final class Values {
        private static final int COUNT = 8192;
        private static final int TEMPLATES = 64;
        private final byte[][] values = new byte[COUNT][];
        private long random = 0x9e3779b97f4a7c15L;

        Values(int size) {
            byte[] hex = "0123456789abcdef".getBytes();
            for (int index = 0; index < COUNT; index++) {
                byte[] value = new byte[size];
                long digits = 0;
                for (int at = 0; at < size / 2; at++) {
                    if (at % 16 == 0) {
                        digits = next();
                    }
                    value[at] = hex[(int) (digits & 15)];
                    digits >>>= 4;
                }
                int template = (int) Long.remainderUnsigned(next(), TEMPLATES);
                for (int at = 0; at < size - size / 2; at++) {
                    value[size / 2 + at] = (byte) ('a' + (template * 31 + at * 17 + at * at % 13) % 26);
                }
                values[index] = value;
            }
        }

        private long next() {
            random ^= random << 13;
            random ^= random >>> 7;
            random ^= random << 17;
            return random;
        }

        byte[] at(long n) {
            return values[(int) (n % COUNT)];
        }
    }
}
