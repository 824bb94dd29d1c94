// The peer franz-go: reads or writes a number of records and prints one line of JSON, as every peer does.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	bootstrapServer string
	topic           string
	partitions      int
	records         int64
	codec           string
	valueSize       int
	pooled          bool
}

// What every peer prints.
type outcome struct {
	Records  int64   `json:"records"`
	Bytes    int64   `json:"bytes"`
	Checksum string  `json:"checksum"`
	Seconds  float64 `json:"seconds"`
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: %s consume|produce --bootstrap-server ... (see bench/peers/README.md)", os.Args[0]))
	}
	var o options
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&o.bootstrapServer, "bootstrap-server", "", "address of a broker")
	flags.StringVar(&o.topic, "topic", "", "topic")
	flags.IntVar(&o.partitions, "partitions", 1, "partitions of the topic")
	flags.Int64Var(&o.records, "records", 0, "records to read or write")
	flags.StringVar(&o.codec, "codec", "none", "none or lz4")
	flags.IntVar(&o.valueSize, "value-size", 100, "bytes of a value")
	flags.BoolVar(&o.pooled, "pooled", false, "pools for records and decompressed batches")
	if err := flags.Parse(os.Args[2:]); err != nil {
		fail(err)
	}
	var result outcome
	var err error
	switch os.Args[1] {
	case "consume":
		result, err = consume(o)
	case "produce":
		result, err = produce(o)
	default:
		err = fmt.Errorf("unknown verb %q", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func consume(o options) (outcome, error) {
	starts := make(map[int32]kgo.Offset)
	for partition := range int32(o.partitions) {
		starts[partition] = kgo.NewOffset().AtStart()
	}
	settings := []kgo.Opt{
		kgo.SeedBrokers(o.bootstrapServer),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.topic: starts}),
		kgo.FetchMaxBytes(50 << 20),
		kgo.FetchMaxPartitionBytes(4 << 20),
	}
	if o.pooled {
		settings = append(settings, kgo.WithPools(&recordPool{}, &bytesPool{}))
	}
	client, err := kgo.NewClient(settings...)
	if err != nil {
		return outcome{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var sum tally
	var began time.Time
	for sum.records < o.records {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return outcome{}, errs[0].Err
		}
		if began.IsZero() && !fetches.Empty() {
			began = time.Now()
		}
		fetches.EachRecord(func(record *kgo.Record) {
			sum.add(record.Value)
			if o.pooled {
				record.Recycle()
			}
		})
	}
	return sum.outcome(time.Since(began)), nil
}

func produce(o options) (outcome, error) {
	compression := kgo.NoCompression()
	if o.codec == "lz4" {
		compression = kgo.Lz4Compression()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(o.bootstrapServer),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchMaxBytes(1_000_000),
		kgo.MaxBufferedRecords(1_000_000),
	)
	if err != nil {
		return outcome{}, err
	}
	defer client.Close()
	ctx := context.Background()
	values := newValues(o.valueSize)
	records := sync.Pool{New: func() any { return new(kgo.Record) }}
	var sum tally
	var acknowledged atomic.Int64
	var failure atomic.Pointer[error]
	told := func(record *kgo.Record, err error) {
		if err != nil {
			failure.CompareAndSwap(nil, &err)
		} else {
			acknowledged.Add(1)
		}
		*record = kgo.Record{}
		records.Put(record)
	}
	began := time.Now()
	for n := range o.records {
		value := values.at(n)
		sum.add(value)
		record := records.Get().(*kgo.Record)
		record.Topic, record.Value = o.topic, value
		client.Produce(ctx, record, told)
	}
	if err := client.Flush(ctx); err != nil {
		return outcome{}, err
	}
	took := time.Since(began)
	if err := failure.Load(); err != nil {
		return outcome{}, *err
	}
	if acknowledged.Load() != o.records {
		return outcome{}, fmt.Errorf("%d of %d records acknowledged", acknowledged.Load(), o.records)
	}
	return sum.outcome(took), nil
}

// Counts what was seen.
type tally struct {
	records  int64
	bytes    int64
	checksum uint64
}

func (t *tally) add(value []byte) {
	t.records++
	t.bytes += int64(len(value))
	first := binary.LittleEndian.Uint64(value)
	last := binary.LittleEndian.Uint64(value[len(value)-8:])
	t.checksum += first + 31*last
}

func (t *tally) outcome(took time.Duration) outcome {
	return outcome{t.records, t.bytes, fmt.Sprintf("%016x", t.checksum), took.Seconds()}
}

// The same values in the same order as every peer writes.
type values struct {
	bytes []byte
	size  int
}

const (
	valueCount    = 8192
	templateCount = 64
)

func newValues(size int) values {
	v := values{make([]byte, 0, valueCount*size), size}
	random := uint64(0x9e3779b97f4a7c15)
	next := func() uint64 {
		random ^= random << 13
		random ^= random >> 7
		random ^= random << 17
		return random
	}
	for range valueCount {
		var digits uint64
		for at := range size / 2 {
			if at%16 == 0 {
				digits = next()
			}
			v.bytes = append(v.bytes, "0123456789abcdef"[digits&15])
			digits >>= 4
		}
		template := next() % templateCount
		for at := uint64(0); at < uint64(size-size/2); at++ {
			v.bytes = append(v.bytes, byte('a'+(template*31+at*17+at*at%13)%26))
		}
	}
	return v
}

func (v values) at(n int64) []byte {
	at := int(n%valueCount) * v.size
	return v.bytes[at : at+v.size : at+v.size]
}

// Pools as the library's documentation suggests them.
type recordPool struct{ pool sync.Pool }

func (p *recordPool) GetRecords(n int) []kgo.Record {
	if kept, ok := p.pool.Get().(*[]kgo.Record); ok && cap(*kept) >= n {
		return (*kept)[:0]
	}
	return make([]kgo.Record, 0, n)
}

func (p *recordPool) PutRecords(records []kgo.Record) { p.pool.Put(&records) }

type bytesPool struct{ pool sync.Pool }

func (p *bytesPool) GetDecompressBytes(compressed []byte, _ kgo.CompressionCodecType) []byte {
	if kept, ok := p.pool.Get().(*[]byte); ok {
		return (*kept)[:0]
	}
	return make([]byte, 0, 4*len(compressed))
}

func (p *bytesPool) PutDecompressBytes(bytes []byte) { p.pool.Put(&bytes) }
