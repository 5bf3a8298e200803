// rabbit-hole, the Go client of RabbitMQ's HTTP API, at work: each check is named on the command line behind the URL of
// the API. What it decodes into its types has to fit; what a check expects beyond that it says itself.
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

type check func(*rabbithole.Client)

var checks = map[string]check{
	"overview":    overview,
	"declared":    declared,
	"users":       users,
	"vhosts":      vhosts,
	"policies":    policies,
	"parameters":  parameters,
	"connections": connections,
	"definitions": definitions,
	"health":      health,
	"declarative": declarative,
}

func main() {
	client, err := rabbithole.NewClient(os.Args[1], "guest", "guest")
	must(err)
	checks[os.Args[2]](client)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func expect(holds bool, what string, found any) {
	if !holds {
		must(fmt.Errorf("%s: %+v", what, found))
	}
}

// Only the value of a call that may fail.
func got[T any](value T, err error) T {
	must(err)
	return value
}

// The status of what changes something.
func done(response *http.Response, err error) {
	must(err)
	said, _ := io.ReadAll(response.Body)
	expect(response.StatusCode < 300, response.Request.Method+" "+response.Request.URL.Path, response.Status+string(said))
}

func overview(client *rabbithole.Client) {
	said := got(client.Overview())
	expect(said.ObjectTotals.Exchanges >= 7, "predeclared exchanges", said.ObjectTotals)
	nodes := got(client.ListNodes())
	expect(len(nodes) == 1 && nodes[0].IsRunning, "a node that runs", nodes)
	expect(got(client.GetNode(nodes[0].Name)).FdTotal > 0, "descriptors", nodes)
	expect(got(client.Whoami()).Name == "guest", "who", nil)
	name := got(client.GetClusterName())
	done(client.SetClusterName(rabbithole.ClusterName{Name: "renamed"}))
	expect(got(client.GetClusterName()).Name == "renamed", "the name", name)
	done(client.SetClusterName(*name))
	expect(len(got(client.EnabledProtocols())) > 0, "protocols", nil)
	expect(got(client.ProtocolPorts())["http"] > 0, "ports", nil)
	expect(len(got(client.ListFeatureFlags())) > 0, "feature flags", nil)
	done(client.EnableFeatureFlag("quorum_queue"))
}

func declared(client *rabbithole.Client) {
	done(client.DeclareExchange("/", "hole", rabbithole.ExchangeSettings{Type: "topic", Durable: true}))
	for _, kind := range []string{"classic", "quorum", "stream"} {
		settings := rabbithole.QueueSettings{Durable: true, Arguments: map[string]interface{}{"x-queue-type": kind}}
		done(client.DeclareQueue("/", kind, settings))
		queue := got(client.GetQueue("/", kind))
		expect(queue.Type == kind && queue.Durable, "a queue as declared", queue)
	}
	binding := rabbithole.BindingInfo{
		Source: "hole", Destination: "classic", DestinationType: "queue", RoutingKey: "a.#",
		Arguments: map[string]interface{}{"one": "x"},
	}
	done(client.DeclareBinding("/", binding))
	found := got(client.ListQueueBindingsBetween("/", "hole", "classic"))
	expect(len(found) == 1 && found[0].PropertiesKey != "", "one binding", found)
	expect(len(got(client.ListQueueBindings("/", "classic"))) == 2, "with that of the default exchange", nil)
	expect(len(got(client.ListExchangeBindingsWithSource("/", "hole"))) == 1, "from the exchange", nil)
	expect(len(got(client.ListExchangeBindingsWithDestination("/", "hole"))) == 0, "to the exchange", nil)
	expect(len(got(client.ListBindings())) >= 4, "all bindings", nil)
	expect(len(got(client.ListQueues())) >= 3, "all queues", nil)
	paged := got(client.PagedListQueuesWithParameters(url.Values{"page": {"1"}, "page_size": {"2"}}))
	expect(len(paged.Items) == 2 && paged.Page == 1, "a page of queues", paged) // its totals may be a second old
	expect(got(client.GetExchange("/", "hole")).Type == "topic", "the exchange", nil)
	expect(len(got(client.ListExchangesIn("/"))) >= 8, "exchanges", nil)
	done(client.DeleteBinding("/", found[0]))
	done(client.PurgeQueue("/", "classic"))
	done(client.SyncQueue("/", "classic"))
	for _, kind := range []string{"classic", "quorum", "stream"} {
		done(client.DeleteQueue("/", kind))
	}
	done(client.DeleteExchange("/", "hole"))
	_, err := client.GetQueue("/", "classic")
	expect(err != nil && err.(rabbithole.ErrorResponse).StatusCode == 404, "it is gone", err)
}

func users(client *rabbithole.Client) {
	done(client.PutUser("hole", rabbithole.UserSettings{Password: "secret", Tags: rabbithole.UserTags{"management"}}))
	expect(got(client.GetUser("hole")).Tags[0] == "management", "tags", nil)
	expect(len(got(client.ListUsers())) >= 2, "users", nil)
	all := rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}
	done(client.UpdatePermissionsIn("/", "hole", all))
	expect(got(client.GetPermissionsIn("/", "hole")).Read == ".*", "permissions", nil)
	expect(len(got(client.ListPermissionsOf("hole"))) == 1, "permissions of one", nil)
	expect(len(got(client.ListPermissions())) >= 2, "permissions", nil)
	topic := rabbithole.TopicPermissions{Exchange: "amq.topic", Write: "a", Read: "b"}
	done(client.UpdateTopicPermissionsIn("/", "hole", topic))
	expect(len(got(client.GetTopicPermissionsIn("/", "hole"))) == 1, "topic permissions", nil)
	done(client.DeleteTopicPermissionsIn("/", "hole", "amq.topic"))
	done(client.PutUserLimits("hole", rabbithole.UserLimitsValues{"max-connections": 3}))
	expect(got(client.GetUserLimits("hole"))[0].Value["max-connections"] == 3, "limits", nil)
	done(client.DeleteUserLimits("hole", rabbithole.UserLimits{"max-connections"}))
	done(client.ClearPermissionsIn("/", "hole"))
	done(client.DeleteUser("hole"))
}

func vhosts(client *rabbithole.Client) {
	settings := rabbithole.VhostSettings{Description: "a hole", Tags: rabbithole.VhostTags{"one", "two"}, Tracing: false}
	done(client.PutVhost("h/1", settings))
	vhost := got(client.GetVhost("h/1"))
	expect(vhost.Description == "a hole" && len(vhost.Tags) == 2, "as it was put", vhost)
	expect(len(got(client.ListVhosts())) >= 2, "virtual hosts", nil)
	done(client.PutVhostLimits("h/1", rabbithole.VhostLimitsValues{"max-queues": 5}))
	expect(got(client.GetVhostLimits("h/1"))[0].Value["max-queues"] == 5, "limits", nil)
	done(client.DeleteVhostLimits("h/1", rabbithole.VhostLimits{"max-queues"}))
	done(client.DeleteVhost("h/1"))
}

func policies(client *rabbithole.Client) {
	limits := rabbithole.PolicyDefinition{"max-length": 5}
	policy := rabbithole.Policy{Vhost: "/", Pattern: "^p", ApplyTo: "queues", Priority: 2, Definition: limits}
	done(client.PutPolicy("/", "hole", policy))
	expect(got(client.GetPolicy("/", "hole")).Priority == 2, "the policy", nil)
	expect(len(got(client.ListPoliciesIn("/"))) == 1, "policies", nil)
	done(client.DeletePolicy("/", "hole"))
	operator := rabbithole.OperatorPolicy{Vhost: "/", Pattern: "^p", ApplyTo: "queues", Definition: limits}
	done(client.PutOperatorPolicy("/", "hole", operator))
	expect(len(got(client.ListOperatorPolicies())) == 1, "operator policies", nil)
	done(client.DeleteOperatorPolicy("/", "hole"))
}

func parameters(client *rabbithole.Client) {
	done(client.PutGlobalParameter("hole", map[string]interface{}{"a": 1}))
	expect(got(client.GetGlobalParameter("hole")).Name == "hole", "the parameter", nil)
	expect(len(got(client.ListGlobalParameters())) >= 1, "parameters", nil)
	done(client.DeleteGlobalParameter("hole"))
	got(client.ListRuntimeParameters())
	response, err := client.PutRuntimeParameter("shovel", "/", "s", map[string]interface{}{"src-queue": "q"})
	expect(err != nil || response.StatusCode == 400, "what needs a plugin is refused", response)
}

func connections(client *rabbithole.Client) {
	found := got(client.ListConnections())
	expect(len(found) >= 1, "the test's own", found)
	one := got(client.GetConnection(found[0].Name))
	expect(one.Name == found[0].Name && one.Protocol == "AMQP 0-9-1", "a connection", one)
	channels := got(client.ListChannels())
	expect(got(client.GetChannel(channels[0].Name)).ConnectionDetails.Name != "", "a channel", channels)
	expect(len(got(client.ListConsumersIn("/"))) == 1, "a consumer", nil)
	expect(len(got(client.ListConnectionsOfUser("guest"))) >= 1, "those of a user", nil)
}

func definitions(client *rabbithole.Client) {
	found := got(client.ListDefinitions())
	expect(len(*found.Users) >= 1 && len(*found.Vhosts) >= 1, "definitions", found)
	// Its type for all of them has no users of permissions: what it has read it cannot write.
	done(client.UploadVhostDefinitions(got(client.ListVhostDefinitions("/")), "/"))
}

// What a health check says of itself.
type verdict interface{ Ok() bool }

func health(client *rabbithole.Client) {
	alarms, local := got(client.HealthCheckAlarms()), got(client.HealthCheckLocalAlarms())
	hosts, critical := got(client.HealthCheckVirtualHosts()), got(client.HealthCheckNodeIsQuorumCritical())
	certificates := got(client.HealthCheckCertificateExpiration(1, rabbithole.DAYS))
	listener := got(client.HealthCheckProtocolListener(rabbithole.HTTP))
	for _, each := range []verdict{&alarms, &local, &hosts, &critical, &certificates, &listener} {
		expect(each.Ok(), "healthy", each)
	}
	port := got(client.HealthCheckPortListener(1))
	expect(!port.Ok(), "nobody listens at port 1", port)
}

// What a tool does that makes a broker as a file says (Terraform's provider, with this client): what was put is read as it
// was put, else the next plan is not empty; putting it again is no error; what is gone is a 404, else it is never made anew.
func declarative(client *rabbithole.Client) {
	const vhost, other = "made/1", "other"
	done(client.PutVhost(vhost, rabbithole.VhostSettings{Description: "one", DefaultQueueType: "quorum"}))
	found := got(client.GetVhost(vhost))
	expect(found.Description == "one" && found.DefaultQueueType == "quorum" && !found.Tracing, "as it was put", found)
	expect(len(got(client.GetVhostLimits(vhost))) == 0, "no limits", nil)
	both := rabbithole.VhostLimitsValues{"max-connections": 7, "max-queues": 8}
	done(client.PutVhostLimits(vhost, both))
	same(got(client.GetVhostLimits(vhost))[0].Value, both)
	done(client.DeleteVhostLimits(vhost, rabbithole.VhostLimits{"max-connections", "max-queues"}))

	arguments := map[string]interface{}{
		"x-max-length": 5.0, "x-overflow": "reject-publish", "x-dead-letter-exchange": "", "x-message-ttl": 60000.0,
	}
	for round := 0; round < 2; round++ {
		done(client.DeclareQueue(vhost, "q@1", rabbithole.QueueSettings{Durable: true, Arguments: arguments}))
	}
	queue := got(client.GetQueue(vhost, "q@1"))
	expect(queue.Durable && !bool(queue.AutoDelete) && queue.Vhost == vhost, "a queue as declared", queue)
	for name, value := range arguments { // the type that the virtual host gives is among them, as with RabbitMQ
		expect(queue.Arguments[name] == value, name, queue.Arguments)
	}
	settings := rabbithole.ExchangeSettings{
		Type: "topic", Durable: true, Arguments: map[string]interface{}{"alternate-exchange": "amq.fanout"},
	}
	for round := 0; round < 2; round++ {
		done(client.DeclareExchange(vhost, other, settings))
	}
	exchange := got(client.GetExchange(vhost, other))
	expect(exchange.Type == "topic" && exchange.Durable && !exchange.AutoDelete, "an exchange as declared", exchange)
	same(exchange.Arguments, settings.Arguments)
	for _, key := range []string{"", "a.#", "a/b c%2F~", "\u00e4"} {
		for _, kind := range []string{"queue", "exchange"} {
			bound(client, vhost, key, kind, map[string]interface{}{})
			bound(client, vhost, key, kind, map[string]interface{}{"x-match": "all", "n": 1.0, "deep": []interface{}{"a", true}})
		}
	}

	tags := rabbithole.UserTags{"monitoring", "management"}
	done(client.PutUser("maker", rabbithole.UserSettings{Password: "secret", Tags: tags}))
	same(got(client.GetUser("maker")).Tags, tags)
	for _, pattern := range []string{"^a", ""} {
		wanted := rabbithole.Permissions{Configure: pattern, Write: ".*", Read: pattern}
		done(client.UpdatePermissionsIn(vhost, "maker", wanted))
		may := got(client.GetPermissionsIn(vhost, "maker"))
		same(rabbithole.Permissions{Configure: may.Configure, Write: may.Write, Read: may.Read}, wanted)
		topic := rabbithole.TopicPermissions{Exchange: "amq.topic", Write: pattern, Read: ".*"}
		done(client.UpdateTopicPermissionsIn(vhost, "maker", topic))
		expect(got(client.GetTopicPermissionsIn(vhost, "maker"))[0].Write == pattern, "topic permissions", pattern)
	}
	done(client.ClearPermissionsIn(vhost, "maker"))
	gone(client.GetPermissionsIn(vhost, "maker"))

	for _, priority := range []int{0, 3} {
		definition := rabbithole.PolicyDefinition{"max-length": 10.0 + float64(priority), "overflow": "drop-head"}
		policy := rabbithole.Policy{Vhost: vhost, Pattern: "^q", ApplyTo: "queues", Priority: priority, Definition: definition}
		done(client.PutPolicy(vhost, "p", policy))
		put := got(client.GetPolicy(vhost, "p"))
		expect(put.Pattern == "^q" && put.ApplyTo == "queues" && put.Priority == priority, "a policy", put)
		same(put.Definition, definition)
		operator := rabbithole.OperatorPolicy{
			Vhost: vhost, Pattern: "^q", ApplyTo: "queues", Priority: priority,
			Definition: rabbithole.PolicyDefinition{"max-length": 10.0 + float64(priority)},
		}
		done(client.PutOperatorPolicy(vhost, "p", operator))
		same(got(client.GetOperatorPolicy(vhost, "p")).Definition, operator.Definition)
	}
	done(client.DeletePolicy(vhost, "p"))
	gone(client.GetPolicy(vhost, "p"))
	done(client.DeleteOperatorPolicy(vhost, "p"))
	gone(client.GetOperatorPolicy(vhost, "p"))

	done(client.DeleteQueue(vhost, "q@1"))
	gone(client.GetQueue(vhost, "q@1"))
	done(client.DeleteExchange(vhost, other))
	gone(client.GetExchange(vhost, other))
	done(client.DeleteUser("maker"))
	gone(client.GetUser("maker"))
	done(client.DeleteVhost(vhost))
	gone(client.GetVhost(vhost))
}

// A binding is known by the key that its making answers, which is that in the lists, and by which it is deleted.
func bound(client *rabbithole.Client, vhost, key, kind string, arguments map[string]interface{}) {
	destination := map[string]string{"queue": "q@1", "exchange": "amq.topic"}[kind]
	wanted := rabbithole.BindingInfo{
		Source: "other", Destination: destination, DestinationType: kind, RoutingKey: key, Arguments: arguments,
	}
	list := func() []rabbithole.BindingInfo {
		if kind == "queue" {
			return got(client.ListQueueBindingsBetween(vhost, "other", destination))
		}
		return got(client.ListExchangeBindingsBetween(vhost, "other", destination))
	}
	answer := got(client.DeclareBinding(vhost, wanted))
	expect(answer.StatusCode == 201, "a binding is made", answer.Status)
	place := strings.Split(answer.Header.Get("Location"), "/")
	propertiesKey := got(url.PathUnescape(place[len(place)-1]))
	found := list()
	expect(len(found) == 1, "one binding", found)
	expect(found[0].PropertiesKey == propertiesKey, "its key is "+propertiesKey, found)
	expect(found[0].RoutingKey == key && found[0].Vhost == vhost, "as it was put", found)
	same(found[0].Arguments, arguments)
	done(client.DeleteBinding(vhost, found[0]))
	expect(len(list()) == 0, "none", list())
}

func same(found, wanted any) {
	expect(reflect.DeepEqual(found, wanted), fmt.Sprintf("%+v wanted, found", wanted), found)
}

func gone[T any](found T, err error) {
	answer, isAnswer := err.(rabbithole.ErrorResponse)
	expect(isAnswer && answer.StatusCode == 404, "a 404", fmt.Sprint(found, err))
}
