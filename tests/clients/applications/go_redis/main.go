// The scenarios of scenarios.py by go-redis: `go_redis scenarios` or `go_redis writes`.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

type list = []any

var ctx = context.Background()

// Panics where a scenario expects no error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func optionsOf(name string) *redis.Options {
	options := must(redis.ParseURL(os.Getenv(name)))
	options.Protocol = must(strconv.Atoi(os.Getenv("CLIENTS_PROTOCOL")))
	options.DisableIdentity = true
	return options
}

func connect() *redis.Client {
	return redis.NewClient(optionsOf("CLIENTS_URL"))
}

func connectTLS() *redis.Client {
	options := optionsOf("CLIENTS_TLS_URL")
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("CLIENTS_CA"))))
	options.TLSConfig = &tls.Config{ServerName: "127.0.0.1", RootCAs: authorities}
	options.MaxRetries = -1
	return redis.NewClient(options)
}

// The first word of the error that the server replies.
func code(err error) any {
	if err == nil {
		return nil
	}
	return strings.Fields(err.Error())[0]
}

func until(condition func() bool) {
	for !condition() {
		time.Sleep(10 * time.Millisecond)
	}
}

func connection(*redis.Client) any {
	options := optionsOf("CLIENTS_URL")
	options.ClientName, options.DB = "reader", 3
	client := redis.NewClient(options)
	defer client.Close()
	info := map[string]string{}
	for _, field := range strings.Fields(must(client.Do(ctx, "CLIENT", "INFO").Text())) {
		name, value, _ := strings.Cut(field, "=")
		info[name] = value
	}
	return list{info["name"], must(strconv.Atoi(info["db"])), must(strconv.Atoi(info["resp"]))}
}

func values(client *redis.Client) any {
	first := must(client.SetNX(ctx, "value", "one", 100*time.Second).Result())
	second := must(client.SetNX(ctx, "value", "two", 0).Result())
	some := must(client.MGet(ctx, "value", "missing").Result())
	number := must(client.Incr(ctx, "number").Result())
	ttl := must(client.TTL(ctx, "value").Result()).Seconds()
	deleted := must(client.Del(ctx, "value", "number", "missing").Result())
	return list{first, second, some, number, 1 <= ttl && ttl <= 100, deleted}
}

func binary(client *redis.Client) any {
	key := make([]byte, 256)
	for index := range key {
		key[index] = byte(index)
	}
	value := bytes.Repeat(key, 4096)
	must(client.Set(ctx, string(key), value, 0).Result())
	read := must(client.Get(ctx, string(key)).Bytes())
	return list{must(client.StrLen(ctx, string(key)).Result()), bytes.Equal(read, value)}
}

func types(client *redis.Client) any {
	must(client.HSet(ctx, "hash", "a", "1", "b", "2").Result())
	must(client.RPush(ctx, "list", "x", "y").Result())
	must(client.SAdd(ctx, "set", "p", "q").Result())
	low, high := redis.Z{Score: 1, Member: "low"}, redis.Z{Score: 2.5, Member: "high"}
	must(client.ZAdd(ctx, "sorted", low, high).Result())
	members := must(client.SMembers(ctx, "set").Result())
	sort.Strings(members)
	sorted := list{}
	for _, member := range must(client.ZRangeWithScores(ctx, "sorted", 0, -1).Result()) {
		sorted = append(sorted, list{member.Member, member.Score})
	}
	return list{
		must(client.HGetAll(ctx, "hash").Result()),
		must(client.LRange(ctx, "list", 0, -1).Result()),
		members,
		sorted,
	}
}

func pipeline(client *redis.Client) any {
	pipe := client.Pipeline()
	var last *redis.IntCmd
	for number := 0; number < 1000; number++ {
		last = pipe.Incr(ctx, "count")
	}
	wrong, read := pipe.LPush(ctx, "count", "x"), pipe.Get(ctx, "count")
	pipe.Exec(ctx)
	return list{last.Val(), code(wrong.Err()), read.Val()}
}

func transaction(client *redis.Client) any {
	pipe := client.TxPipeline()
	pipe.Set(ctx, "watched", "1", 0)
	second := pipe.Incr(ctx, "watched")
	must(pipe.Exec(ctx))
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		must(client.Set(ctx, "watched", "other", 0).Result())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "watched", "mine", 0).Err()
		})
		return err
	}, "watched")
	return list{second.Val(), err == redis.TxFailedErr, must(client.Get(ctx, "watched").Result())}
}

func pubsub(client *redis.Client) any {
	subscriber := client.Subscribe(ctx, "news")
	must(subscriber.Receive(ctx))
	if err := subscriber.PSubscribe(ctx, "n?ws"); err != nil {
		panic(err)
	}
	must(subscriber.Receive(ctx))
	receivers := must(client.Publish(ctx, "news", "hello").Result())
	message := must(subscriber.ReceiveMessage(ctx))
	byPattern := must(subscriber.ReceiveMessage(ctx))
	subscriber.Close()
	until(func() bool { return must(client.Publish(ctx, "news", "nobody").Result()) == 0 })
	return list{
		receivers,
		list{message.Channel, message.Payload},
		list{byPattern.Pattern, byPattern.Channel, byPattern.Payload},
	}
}

func blocking(client *redis.Client) any {
	_, err := client.BLPop(ctx, time.Second, "queue").Result()
	popped := make(chan []string)
	go func() { popped <- must(client.BLPop(ctx, time.Minute, "queue").Result()) }()
	until(func() bool {
		return strings.Contains(must(client.Info(ctx, "clients").Result()), "blocked_clients:1")
	})
	must(client.RPush(ctx, "queue", "job").Result())
	must(client.ZAdd(ctx, "urgent", redis.Z{Score: 1, Member: "first"}).Result())
	job := <-popped
	urgent := must(client.BZPopMin(ctx, time.Second, "urgent").Result())
	var nothing any
	if err != redis.Nil {
		nothing = fmt.Sprint(err)
	}
	return list{nothing, job, list{urgent.Key, urgent.Member, urgent.Score}}
}

func scripts(client *redis.Client) any {
	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	first := must(script.Run(ctx, client, []string{"scripted"}, 40).Int())
	must(client.ScriptFlush(ctx).Result())
	second := must(script.Run(ctx, client, []string{"scripted"}, 2).Int())
	must(client.FunctionLoad(ctx, "#!lua name=greetings\n"+
		"redis.register_function('greet', function(keys, args)"+
		" return 'hello ' .. args[1] end)").Result())
	err := client.Eval(ctx, "return redis.error_reply('MINE it is')", nil).Err()
	greeting := must(client.FCall(ctx, "greet", nil, "you").Result())
	return list{first, second, code(err), greeting}
}

func streams(client *redis.Client) any {
	read := func(consumer string, count int64, block time.Duration) []redis.XMessage {
		return must(client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "group", Consumer: consumer, Streams: []string{"stream", ">"},
			Count: count, Block: block,
		}).Result())[0].Messages
	}
	must(client.XGroupCreateMkStream(ctx, "stream", "group", "0").Result())
	for number := 1; number <= 3; number++ {
		entry, id := map[string]any{"n": number}, fmt.Sprintf("%d-1", number)
		must(client.XAdd(ctx, &redis.XAddArgs{Stream: "stream", ID: id, Values: entry}).Result())
	}
	first := list{}
	for _, message := range read("alice", 2, -1) {
		first = append(first, list{message.ID, message.Values})
	}
	acknowledged := must(client.XAck(ctx, "stream", "group", "1-1").Result())
	pending := must(client.XPending(ctx, "stream", "group").Result())
	claimed, _, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: "stream", Group: "group", Consumer: "bob", Start: "0",
	}).Result()
	must(claimed, err)
	rest := read("bob", 10, time.Second)
	return list{
		first,
		acknowledged,
		list{pending.Count, pending.Lower, pending.Higher},
		ids(claimed),
		ids(rest),
		must(client.XLen(ctx, "stream").Result()),
	}
}

func ids(messages []redis.XMessage) list {
	found := list{}
	for _, message := range messages {
		found = append(found, message.ID)
	}
	return found
}

func scans(client *redis.Client) any {
	var pairs, names, scored list
	sorted := []redis.Z{}
	for number := 0; number < 1000; number++ {
		name := fmt.Sprintf("scan:%d", number)
		pairs, names = append(pairs, name, "x"), append(names, name)
		sorted = append(sorted, redis.Z{Score: 1, Member: name})
	}
	must(client.MSet(ctx, pairs...).Result())
	must(client.HSet(ctx, "scanned:hash", pairs...).Result())
	must(client.SAdd(ctx, "scanned:set", names...).Result())
	must(client.ZAdd(ctx, "scanned:sorted", sorted...).Result())
	for _, scan := range []struct {
		command *redis.ScanCmd
		step    int
	}{
		{client.ScanType(ctx, 0, "scan:*", 100, "string"), 1},
		{client.HScan(ctx, "scanned:hash", 0, "", 100), 2},
		{client.SScan(ctx, "scanned:set", 0, "", 100), 1},
		{client.ZScan(ctx, "scanned:sorted", 0, "", 100), 2},
	} {
		found := map[string]bool{}
		iterator := scan.command.Iterator()
		for index := 0; iterator.Next(ctx); index++ {
			if index%scan.step == 0 {
				found[iterator.Val()] = true
			}
		}
		must(found, iterator.Err())
		scored = append(scored, len(found))
	}
	return scored
}

func access(*redis.Client) any {
	client := connectTLS()
	defer client.Close()
	must(client.Set(ctx, "app:key", "one", 0).Result())
	options := optionsOf("CLIENTS_URL")
	options.Username, options.Password = "app", "wrong"
	wrong := redis.NewClient(options)
	defer wrong.Close()
	return list{
		must(client.Do(ctx, "ACL", "WHOAMI").Text()),
		must(client.Get(ctx, "app:key").Result()),
		code(client.Get(ctx, "key").Err()),
		code(client.FlushAll(ctx).Err()),
		code(wrong.Ping(ctx).Err()),
	}
}

// go-redis has no cache.
func caching(*redis.Client) any {
	return nil
}

func runScenarios() {
	client := connect()
	for _, scenario := range []struct {
		name string
		run  func(*redis.Client) any
	}{
		{"connection", connection}, {"values", values}, {"binary", binary}, {"types", types},
		{"pipeline", pipeline}, {"transaction", transaction}, {"pubsub", pubsub},
		{"blocking", blocking}, {"scripts", scripts}, {"streams", streams}, {"scans", scans},
		{"tls", access}, {"caching", caching},
	} {
		fmt.Println(scenario.name, string(must(json.Marshal(scenario.run(client)))))
	}
}

func runWrites() {
	path := os.Getenv("CLIENTS_LEDGER")
	ledger := must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))
	client := connectTLS()
	for number := 1; !bytes.Contains(must(os.ReadFile(path)), []byte("stop")); number++ {
		if err := client.Set(ctx, fmt.Sprintf("app:write:%d", number), number, 0).Err(); err == nil {
			must(fmt.Fprintf(ledger, "sent %d\n", number))
		} else {
			must(fmt.Fprintf(ledger, "unsure %d\n", number))
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func main() {
	map[string]func(){"scenarios": runScenarios, "writes": runWrites}[os.Args[1]]()
}
