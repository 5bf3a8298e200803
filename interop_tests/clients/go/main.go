// Go's amqp091-go at work. `checks URL CHECK` runs one check and ends with status 0 when it holds.
//
// Each check makes names of its own; nothing is left behind but what the broker deletes by itself.
package main

import (
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 30 * time.Second

type check func(url string)

var checks = map[string]check{
	"confirms":           confirms,
	"returns":            returns,
	"nacks":              nacks,
	"workers":            workers,
	"prefetch":           prefetch,
	"rpc":                rpc,
	"exchanges":          exchanges,
	"deadLetters":        deadLetters,
	"channelErrors":      channelErrors,
	"connectionErrors":   connectionErrors,
	"cancelNotification": cancelNotification,
	"headers":            headers,
	"largeBody":          largeBody,
	"heartbeats":         heartbeats,
	"transactions":       transactions,
	"secret":             secret,
	"amqplain":           amqplain,
	"requeue":            requeue,
	"closes":             closes,
}

func main() {
	log.SetFlags(0)
	url, name := os.Args[1], os.Args[2]
	run, found := checks[name]
	if !found {
		log.Fatalf("no check %q", name)
	}
	time.AfterFunc(patience, func() { log.Fatalf("%s took longer than %s", name, patience) })
	run(url)
}

func must[T any](value T, err error) T {
	fine(err)
	return value
}

func fine(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(holds bool, format string, arguments ...any) {
	if !holds {
		panic(fmt.Sprintf(format, arguments...))
	}
}

func unique(stem string) string {
	octets := make([]byte, 8)
	must(rand.Read(octets))
	return fmt.Sprintf("%s-%x", stem, octets)
}

func dial(url string) *amqp.Connection { return must(amqp.Dial(url)) }

func open(url string) *amqp.Channel { return must(dial(url).Channel()) }

func exclusive(channel *amqp.Channel, arguments amqp.Table) string {
	return must(channel.QueueDeclare("", false, false, true, false, arguments)).Name
}

func text(body string) amqp.Publishing { return amqp.Publishing{Body: []byte(body)} }

func send(channel *amqp.Channel, queue string, message amqp.Publishing) {
	fine(channel.Publish("", queue, false, false, message))
}

func confirms(url string) {
	channel := open(url)
	queue := must(channel.QueueDeclare(unique("queue"), true, false, false, false, nil)).Name
	fine(channel.Confirm(false))
	var pending []*amqp.DeferredConfirmation
	for index := 0; index < 500; index++ {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(fmt.Sprint(index))}
		pending = append(pending, must(channel.PublishWithDeferredConfirm("", queue, false, false, message)))
	}
	for index, confirmation := range pending {
		expect(confirmation.Wait(), "publish %d was not confirmed", index)
	}
	state := must(channel.QueueDeclarePassive(queue, true, false, false, false, nil))
	expect(state.Messages == 500, "%d messages instead of 500", state.Messages)
	fine(channel.Qos(50, 0, false))
	deliveries := must(channel.Consume(queue, "mine", false, false, false, false, nil))
	for index := 0; index < 500; index++ {
		delivery := <-deliveries
		expect(string(delivery.Body) == fmt.Sprint(index), "%q instead of %d", delivery.Body, index)
		fine(delivery.Ack(false))
	}
	fine(channel.Cancel("mine", false))
	left := must(channel.QueueDelete(queue, false, false, false))
	expect(left == 0, "%d messages left", left)
}

// A clean Close succeeds, whatever was published right before it and still is.
func closes(url string) {
	body := make([]byte, 1000)
	for index := 0; index < 200; index++ {
		connection := dial(url)
		channel := must(connection.Channel())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for channel.Publish("", "nobody", false, false, amqp.Publishing{Body: body}) == nil {
			}
		}()
		time.Sleep(time.Duration(index%5) * time.Millisecond)
		fine(connection.Close())
		<-ended
	}
}

func returns(url string) {
	channel := open(url)
	fine(channel.Confirm(false))
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	fine(channel.Publish("", "no-such-queue", true, false, amqp.Publishing{MessageId: "m", Body: []byte("lost")}))
	message := <-returned
	expect(message.ReplyCode == 312 && message.ReplyText == "NO_ROUTE", "%+v", message)
	expect(message.MessageId == "m" && string(message.Body) == "lost", "%+v", message)
	expect((<-confirmed).Ack, "not confirmed")
}

func nacks(url string) {
	channel := open(url)
	queue := exclusive(channel, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	fine(channel.Confirm(false))
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, 2))
	send(channel, queue, text("1"))
	send(channel, queue, text("2"))
	expect((<-confirmed).Ack, "the first was refused")
	expect(!(<-confirmed).Ack, "the second was accepted")
}

func workers(url string) {
	publisher := open(url)
	queue := must(publisher.QueueDeclare(unique("tasks"), false, true, false, false, nil)).Name
	done := make(chan int)
	for worker := 0; worker < 3; worker++ {
		channel := open(url)
		fine(channel.Qos(5, 0, false))
		deliveries := must(channel.Consume(queue, "", false, false, false, false, nil))
		go func(worker int) {
			for delivery := range deliveries {
				fine(delivery.Ack(false))
				done <- worker
			}
		}(worker)
	}
	go func() {
		for index := 0; index < 300; index++ {
			send(publisher, queue, text(fmt.Sprint(index)))
		}
	}()
	shares := map[int]int{}
	for index := 0; index < 300; index++ {
		shares[<-done]++
	}
	expect(len(shares) == 3, "shares %v", shares)
}

func prefetch(url string) {
	channel := open(url)
	queue := exclusive(channel, nil)
	fine(channel.Qos(3, 0, true))
	first := must(channel.Consume(queue, "", false, false, false, false, nil))
	second := must(channel.Consume(queue, "", false, false, false, false, nil))
	for index := 0; index < 6; index++ {
		send(channel, queue, text("m"))
	}
	next := func() amqp.Delivery {
		select {
		case delivery := <-first:
			return delivery
		case delivery := <-second:
			return delivery
		}
	}
	var held []amqp.Delivery
	for len(held) < 3 {
		held = append(held, next())
	}
	for round := 0; round < 2; round++ {
		must(channel.QueueDeclarePassive(queue, false, false, true, false, nil))
	}
	expect(len(first)+len(second) == 0, "more than the prefetch came")
	fine(channel.Qos(6, 0, true))
	for len(held) < 6 {
		held = append(held, next())
	}
	fine(held[5].Ack(true))
}

func rpc(url string) {
	server, client := open(url), open(url)
	queue := must(server.QueueDeclare(unique("rpc"), false, true, false, false, nil)).Name
	requests := must(server.Consume(queue, "", true, false, false, false, nil))
	go func() {
		for request := range requests {
			answer := amqp.Publishing{CorrelationId: request.CorrelationId, Body: append(request.Body, '!')}
			send(server, request.ReplyTo, answer)
		}
	}()
	replies := must(client.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil))
	for index := 0; index < 50; index++ {
		id := fmt.Sprint(index)
		send(client, queue, amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: id, Body: []byte(id)})
	}
	for index := 0; index < 50; index++ {
		reply := <-replies
		expect(string(reply.Body) == reply.CorrelationId+"!", "%q for %q", reply.Body, reply.CorrelationId)
	}
}

func exchanges(url string) {
	channel := open(url)
	fine(channel.Confirm(false))
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
		entrance, exchange := unique("entrance"), unique(kind)
		fine(channel.ExchangeDeclare(entrance, "fanout", false, false, false, false, nil))
		fine(channel.ExchangeDeclare(exchange, kind, false, true, false, false, nil))
		fine(channel.ExchangeBind(exchange, "", entrance, false, nil))
		queue := exclusive(channel, nil)
		key := map[string]string{"direct": "a.b", "topic": "*.b"}[kind]
		fine(channel.QueueBind(queue, key, exchange, false, amqp.Table{"x-match": "all", "k": int32(1)}))
		message := amqp.Publishing{Headers: amqp.Table{"k": int64(1)}, Body: []byte(kind)}
		confirmation := must(channel.PublishWithDeferredConfirm(entrance, "a.b", true, false, message))
		expect(confirmation.Wait(), "%s: not confirmed", kind)
		expect(len(returned) == 0, "%s: returned", kind)
		delivery, found, err := channel.Get(queue, true)
		fine(err)
		expect(found && string(delivery.Body) == kind && delivery.Exchange == entrance, "%s: %+v", kind, delivery)
		fine(channel.QueueUnbind(queue, key, exchange, amqp.Table{"x-match": "all", "k": int32(1)}))
		fine(channel.ExchangeDelete(entrance, false, false))
	}
}

func deadLetters(url string) {
	channel := open(url)
	dead := exclusive(channel, nil)
	queue := exclusive(channel, amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	letters := must(channel.Consume(dead, "", true, false, false, false, nil))
	send(channel, queue, amqp.Publishing{Expiration: "1", Body: []byte("expired")})
	first := <-letters
	send(channel, queue, text("rejected"))
	for {
		delivery, found, err := channel.Get(queue, false)
		fine(err)
		if found {
			fine(delivery.Reject(false))
			break
		}
	}
	for _, letter := range []amqp.Delivery{first, <-letters} {
		death := letter.Headers["x-death"].([]interface{})[0].(amqp.Table)
		expect(death["reason"] == string(letter.Body) && death["queue"] == queue, "%v", death)
		expect(death["count"] == int64(1), "count is %T %v", death["count"], death["count"])
		expect(!death["time"].(time.Time).IsZero(), "no time in %v", death)
	}
}

func channelErrors(url string) {
	connection := dial(url)
	channel := must(connection.Channel())
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	_, err := channel.QueueDeclarePassive("missing-queue", false, false, false, false, nil)
	failure, isError := err.(*amqp.Error)
	expect(isError && failure.Code == amqp.NotFound && failure.Server && failure.Recover, "%#v", err)
	expect((<-closed).Code == amqp.NotFound, "the channel was not closed with 404")
	queue := exclusive(must(connection.Channel()), nil)
	must(must(connection.Channel()).QueuePurge(queue, false))
}

func connectionErrors(url string) {
	connection := dial(url)
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	channel := must(connection.Channel())
	err := channel.Recover(false)
	failure, isError := err.(*amqp.Error)
	expect(isError && failure.Code == amqp.NotImplemented, "%#v", err)
	expect((<-closed).Code == amqp.NotImplemented, "the connection was not closed with 540")
	wrong := must(amqp.ParseURI(url))
	wrong.Vhost = "nowhere"
	_, err = amqp.Dial(wrong.String())
	expect(err != nil, "a missing vhost was opened")
	wrong = must(amqp.ParseURI(url))
	wrong.Password = "wrong"
	_, err = amqp.Dial(wrong.String())
	failure, isError = err.(*amqp.Error)
	expect(isError && failure.Code == amqp.AccessRefused, "%#v", err)
}

func cancelNotification(url string) {
	channel := open(url)
	queue := must(channel.QueueDeclare(unique("queue"), false, false, false, false, nil)).Name
	cancelled := channel.NotifyCancel(make(chan string, 1))
	deliveries := must(channel.Consume(queue, "mine", false, false, false, false, nil))
	must(open(url).QueueDelete(queue, false, false, false))
	expect(<-cancelled == "mine", "another tag was cancelled")
	_, isOpen := <-deliveries
	expect(!isOpen, "a delivery from a deleted queue")
}

func headers(url string) {
	channel := open(url)
	queue := exclusive(channel, nil)
	when := time.Unix(1_700_000_000, 0)
	table := amqp.Table{
		"bool": true, "byte": byte(200), "int8": int8(-5), "int16": int16(-300), "int32": int32(-70_000),
		"int64": int64(1) << 40, "float32": float32(0.5), "float64": 0.25, "text": "Grüße", "octets": []byte{0, 255},
		"none": nil, "time": when, "decimal": amqp.Decimal{Scale: 2, Value: 1234},
		"list": []interface{}{int32(1), "two"}, "table": amqp.Table{"deep": amqp.Table{"deeper": true}},
	}
	sent := amqp.Publishing{
		Headers: table, ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 3,
		CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "i", Timestamp: when, Type: "t", AppId: "a",
		Body: []byte("m"),
	}
	send(channel, queue, sent)
	got, found, err := channel.Get(queue, true)
	fine(err)
	expect(found, "nothing there")
	got.Headers["time"] = got.Headers["time"].(time.Time).Local()
	table["time"] = when.Local()
	expect(reflect.DeepEqual(got.Headers, table), "%#v\ninstead of\n%#v", got.Headers, table)
	expect(got.Timestamp.Equal(when) && got.ContentType == "text/plain" && got.DeliveryMode == 2, "%+v", got)
	expect(got.Priority == 3 && got.CorrelationId == "c" && got.ReplyTo == "r" && got.Expiration == "60000", "%+v", got)
	expect(got.MessageId == "i" && got.Type == "t" && got.AppId == "a" && got.ContentEncoding == "utf-8", "%+v", got)
}

func largeBody(url string) {
	channel := open(url)
	queue := exclusive(channel, nil)
	body := make([]byte, 5_000_001)
	must(rand.Read(body))
	fine(channel.Confirm(false))
	confirmation := must(channel.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: body}))
	expect(confirmation.Wait(), "not confirmed")
	got, _, err := channel.Get(queue, true)
	fine(err)
	expect(reflect.DeepEqual(got.Body, body), "%d octets came back, others than were sent", len(got.Body))
}

func heartbeats(url string) {
	connection := must(amqp.DialConfig(url, amqp.Config{Heartbeat: time.Second}))
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	select {
	case failure := <-closed:
		expect(false, "the idle connection was closed: %v", failure)
	case <-time.After(4 * time.Second):
	}
	exclusive(must(connection.Channel()), nil)
}

func transactions(url string) {
	channel := open(url)
	queue := exclusive(channel, nil)
	fine(channel.Tx())
	send(channel, queue, text("kept"))
	fine(channel.TxCommit())
	send(channel, queue, text("forgotten"))
	fine(channel.TxRollback())
	got, found, err := channel.Get(queue, true)
	fine(err)
	expect(found && string(got.Body) == "kept" && got.MessageCount == 0, "%+v", got)
}

func secret(url string) {
	connection := dial(url)
	fine(connection.UpdateSecret("fresh", "rotation"))
	exclusive(must(connection.Channel()), nil)
}

func amqplain(url string) {
	uri := must(amqp.ParseURI(url))
	login := &amqp.AMQPlainAuth{Username: uri.Username, Password: uri.Password}
	connection := must(amqp.DialConfig(url, amqp.Config{SASL: []amqp.Authentication{login}}))
	fine(connection.Close())
}

func requeue(url string) {
	channel := open(url)
	queue := exclusive(channel, nil)
	for _, body := range []string{"1", "2", "3"} {
		send(channel, queue, text(body))
	}
	deliveries := must(channel.Consume(queue, "mine", false, false, false, false, nil))
	for index := 0; index < 3; index++ {
		<-deliveries
	}
	fine(channel.Cancel("mine", false))
	fine(channel.Nack(2, true, true))
	fine(channel.Reject(3, false))
	for _, body := range []string{"1", "2"} {
		got, found, err := channel.Get(queue, true)
		fine(err)
		expect(found && string(got.Body) == body && got.Redelivered, "%+v", got)
	}
}
