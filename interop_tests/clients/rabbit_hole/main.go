// rabbit-hole, the Go client of RabbitMQ's HTTP API, at work: each check is named on the command line behind the URL of
// the API. What it decodes into its types has to fit; what a check expects beyond that it says itself.
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

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
