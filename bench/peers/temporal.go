package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const (
	temporalNamespace = "default"
	temporalQueue     = "bench"
	loopback          = "127.0.0.1"
)

// temporalStep is the activity.
func temporalStep(_ context.Context, n int) (int, error) { return n + 1, nil }

// temporalSteps is the workflow: n activities, one after the other.
func temporalSteps(ctx workflow.Context, n int) (int, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	v := 0
	for range n {
		if err := workflow.ExecuteActivity(ctx, temporalStep, v).Get(ctx, &v); err != nil {
			return v, err
		}
	}
	return v, nil
}

// temporalSystem is a server on one SQLite file, a client and a worker, all in this process. They talk over the loopback.
type temporalSystem struct {
	server temporal.Server
	client client.Client
	worker worker.Worker
}

func openTemporal(ctx context.Context, s setup) (system, error) {
	conf, err := temporalConfig(ctx, s)
	if err != nil {
		return nil, err
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, service := range conf.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(hostPort(service.RPC.GRPCPort))
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(conf),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(log.NewNoopLogger()),
		temporal.WithDynamicConfigClient(dynamicconfig.StaticClient{
			dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 8096, // as in the dev server
		}),
	)
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	t := &temporalSystem{server: server}
	t.client, err = client.DialContext(ctx, client.Options{
		HostPort: conf.PublicClient.HostPort, Namespace: temporalNamespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	t.worker = worker.New(t.client, temporalQueue, worker.Options{})
	t.worker.RegisterWorkflow(temporalSteps)
	t.worker.RegisterActivity(temporalStep)
	if err := t.worker.Start(); err != nil {
		t.client.Close()
		return nil, errors.Join(err, server.Stop())
	}
	return t, nil
}

// temporalConfig is what the dev server uses: one history shard, one SQLite file, all services in one process.
func temporalConfig(ctx context.Context, s setup) (*config.Config, error) {
	db := &config.SQL{
		PluginName:        sqliteplugin.PluginName,
		DatabaseName:      filepath.Join(s.dir, "temporal.db"),
		ConnectAttributes: map[string]string{"mode": "rwc", "journal_mode": "wal", "synchronous": s.sync},
	}
	if err := sqlite.SetupSchema(db); err != nil {
		return nil, err
	}
	namespace, err := sqlite.NewNamespaceConfig("active", temporalNamespace, false, nil)
	if err != nil {
		return nil, err
	}
	if err := sqlite.CreateNamespaces(db, namespace); err != nil {
		return nil, err
	}
	conf := &config.Config{Services: map[string]config.Service{}}
	for _, name := range temporal.DefaultServices {
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		conf.Services[name] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
	}
	frontend := hostPort(conf.Services[string(primitives.FrontendService)].RPC.GRPCPort)
	conf.PublicClient.HostPort = frontend
	conf.Global.Membership.BroadcastAddress = loopback
	conf.Persistence = config.Persistence{
		DefaultStore: "db", VisibilityStore: "db", NumHistoryShards: 1, DataStores: map[string]config.DataStore{"db": {SQL: db}},
	}
	conf.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
		ClusterInformation: map[string]cluster.ClusterInformation{"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend}},
	}
	conf.DCRedirectionPolicy.Policy = "noop"
	conf.Archival.History.State = "disabled"
	conf.Archival.Visibility.State = "disabled"
	conf.NamespaceDefaults.Archival.History.State = "disabled"
	conf.NamespaceDefaults.Archival.Visibility.State = "disabled"
	return conf, nil
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// freePort returns a port of the loopback interface that nobody listens on at the moment.
func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", hostPort(0))
	if err != nil {
		return 0, err
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(errors.New("not a TCP port"), listener.Close())
	}
	return address.Port, listener.Close()
}

func (t *temporalSystem) complete(ctx context.Context, runs, steps int) error {
	return submit(ctx, runs, func(ctx context.Context, n int) error {
		mine := make([]client.WorkflowRun, n)
		for i := range mine {
			var err error
			mine[i], err = t.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: temporalQueue}, temporalSteps, steps)
			if err != nil {
				return err
			}
		}
		for _, run := range mine {
			var done int
			if err := run.Get(ctx, &done); err != nil {
				return err
			}
			if done != steps {
				return fmt.Errorf("a workflow did %d of %d steps", done, steps)
			}
		}
		return nil
	})
}

// check has nothing to do: each result was waited for.
func (t *temporalSystem) check(context.Context, int) error { return nil }

func (t *temporalSystem) close(context.Context) error {
	t.worker.Stop()
	t.client.Close()
	return t.server.Stop()
}
