package runtime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"suanli.dev/internal/protocol"
)

// DockerConfig says which engine to use and what to put into containers.
type DockerConfig struct {
	Host   string // of the engine, "unix:///var/run/docker.sock"; empty: from the environment
	Dir    string // the agent's state; leases/<id>/ in it holds disks
	HostID string // marks what is ours on an engine that others use too
	Binary string // the static binary to mount into containers
	// Registry opens a connection to the cloud's own image registry.
	Registry func(ctx context.Context) (net.Conn, error)
	// Table names the nftables table; agents that share a network namespace differ in it.
	Table string
	// InnerRegistries may be inside of a network; others are refused there.
	InnerRegistries []InnerRegistry
	// ImageMiB is how much images that were pulled may take of the host's disk before
	// those that nothing uses are removed, the longest unused first. 0: a fifth of it.
	ImageMiB int64
	Log      *slog.Logger
}

// Docker drives a Docker or Podman engine.
type Docker struct {
	cfg DockerConfig
	api *client.Client
	fw  *firewall

	mu       sync.Mutex
	info     Info
	asked    bool
	root     string            // the engine's data folder
	overlay  bool              // layers are where volume.bind expects them
	addr     map[string]string // lease → address of its instance, while it runs
	nets     sync.Mutex        // choosing a free subnet and taking it
	nameserv []netip.Addr
	mirrors  []string // of Docker Hub, as the engine is configured
	images   *images
	pruning  sync.Mutex
	keeping  sync.Mutex // volumes and the counts of who has them
	copying  map[string]*copyJob
	fresh    time.Duration // freshFor, but in tests
}

// The labels that make our containers and networks findable after a crash.
const (
	labelHost       = "suanli.host"
	labelLease      = "suanli.lease"
	labelGeneration = "suanli.generation"
	labelGPUs       = "suanli.gpus"
	labelDisk       = "suanli.disk_mib"
	labelOpen       = "suanli.open_private" // of a network: its lease may reach private ranges
	labelPorts      = "suanli.egress_ports" // of a network: the ports that its lease may reach; empty: all
)

// An instance's output is kept by the engine, outside of the lease's disk. It is
// bounded, newest last, and logMiB is set aside for it when a disk is made, so
// that renters who print without end cannot fill the host. The engine looks at
// the size after each write: a file may be longer by one line, of 16 KiB at most.
const (
	logFileMiB = 20
	logFiles   = 2
	logMiB     = logFileMiB*logFiles + 1
)

// addedCapabilities is what is given back after all are dropped: what package
// managers, sshd and service accounts need inside, none of which reaches outside.
// NET_RAW is not among them: with it an instance could forge packets.
var addedCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "SETFCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "AUDIT_WRITE"}

// NewDocker returns a driver; it does not need the engine to answer yet.
func NewDocker(cfg DockerConfig) (*Docker, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the agent has to run as root: it mounts instances' disks and writes firewall rules; start it with sudo, or use --simulate without an engine")
	}
	opts := []client.Opt{client.FromEnv}
	if cfg.Host != "" {
		opts = []client.Opt{client.WithHost(cfg.Host)}
	}
	api, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("make a client for the container engine %q: %w", cfg.Host, err)
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "leases"), 0o700); err != nil {
		return nil, err
	}
	if cfg.Table == "" {
		cfg.Table = "suanli"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ns := resolvers()
	d := &Docker{cfg: cfg, api: api, addr: map[string]string{}, nameserv: ns, fw: newFirewall(cfg.Table, pool(), ns), fresh: freshFor}
	// What a pull had fetched when an earlier agent ended is of no use.
	if err := errors.Join(os.RemoveAll(d.pullsDir()), os.MkdirAll(d.pullsDir(), 0o700)); err != nil {
		return nil, err
	}
	if d.images, err = readImages(filepath.Join(cfg.Dir, "images.json")); err != nil {
		return nil, err
	}
	ports, err := d.fw.keptPorts()
	if err != nil {
		return nil, fmt.Errorf("read which ports instances may reach: %w", err)
	}
	if t, err := d.savedCounters(); err == nil {
		for lease := range t {
			// Private ranges are opened again by the network's label; ports must not
			// be open for the moment until that is read.
			d.fw.open[lease] = access{ports: ports[bridgeName(lease)]}
		}
		if err := d.fw.rebuild(t); err != nil {
			return nil, fmt.Errorf("isolation of instances cannot be set up (does the kernel have nf_tables?): %w", err)
		}
	} else if err := d.fw.rebuild(nil); err != nil {
		return nil, fmt.Errorf("isolation of instances cannot be set up (does the kernel have nf_tables?): %w", err)
	}
	return d, nil
}

// savedCounters reads the counters that an earlier agent left in the kernel, for
// the leases that have a folder.
func (d *Docker) savedCounters() (map[string]Traffic, error) {
	values, err := d.fw.counters()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(d.cfg.Dir, "leases"))
	if err != nil {
		return nil, err
	}
	t := map[string]Traffic{}
	for _, e := range entries {
		b := bridgeName(e.Name())
		if out, ok := values[outCounter(b)]; ok {
			t[e.Name()] = Traffic{Out: int64(out), In: int64(values[inCounter(b)])}
		}
	}
	return t, nil
}

func (d *Docker) volume(lease string) volume {
	return volume{dir: filepath.Join(d.cfg.Dir, "leases", lease)}
}

func (d *Docker) log() *slog.Logger { return d.cfg.Log }

func containerName(lease string) string { return "suanli-" + lease }

// Info implements Driver.
func (d *Docker) Info(ctx context.Context) (Info, error) {
	r, err := d.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Info{}, fmt.Errorf("ask the container engine: %w", err)
	}
	version, err := d.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return Info{}, fmt.Errorf("ask the container engine for its version: %w", err)
	}
	name := "docker"
	for _, c := range version.Components {
		if strings.Contains(strings.ToLower(c.Name), "podman") {
			name = "podman"
		}
	}
	info := Info{Name: name + " " + strings.SplitN(r.Info.ServerVersion, "+", 2)[0]}
	info.Isolation = []string{r.Info.DefaultRuntime}
	for rt := range r.Info.Runtimes {
		if rt != r.Info.DefaultRuntime && (rt == "runc" || rt == "runsc" || rt == "crun") {
			info.Isolation = append(info.Isolation, rt)
		}
	}
	slices.Sort(info.Isolation[1:])
	overlay := false
	switch r.Info.Driver {
	case "overlay2", "overlay":
		overlay = true
		info.DiskQuota = "loop"
		if _, err := exec.LookPath("mkfs.ext4"); err != nil {
			info.DiskQuota, overlay = "", false
			info.Problem = "mkfs.ext4 is not installed, so disks cannot be limited; install e2fsprogs"
		} else if _, err := os.Stat("/dev/loop-control"); err != nil {
			info.DiskQuota, overlay = "", false
			info.Problem = "the kernel offers no loop devices, so disks cannot be limited; load the module loop"
		}
	default:
		info.Problem = fmt.Sprintf("the engine keeps containers with the storage driver %q, on which a disk limit cannot be enforced; set \"storage-driver\": \"overlay2\" in the engine's configuration", r.Info.Driver)
	}
	free, err := freeMiB(d.cfg.Dir)
	if err != nil {
		return Info{}, err
	}
	// What images may still take is not offered: disks would take it for good.
	info.DiskMiB = max(0, free-hostReserveMiB-max(0, d.imageBudgetMiB()-d.images.totalMiB())) + d.reservedMiB()
	var mirrors []string
	if r.Info.RegistryConfig != nil {
		mirrors = r.Info.RegistryConfig.Mirrors
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.info, d.asked, d.overlay, d.root, d.mirrors = info, true, overlay, r.Info.DockerRootDir, mirrors
	return info, nil
}

// reservedMiB is what existing disks take, which free space does not count.
func (d *Docker) reservedMiB() int64 {
	images, _ := filepath.Glob(filepath.Join(d.cfg.Dir, "leases", "*", "disk.img"))
	kept, _ := filepath.Glob(filepath.Join(d.cfg.Dir, "volumes", "*", "disk.img"))
	var sum int64
	for _, p := range append(images, kept...) {
		if st, err := os.Stat(p); err == nil {
			sum += st.Size() >> 20
		}
	}
	return sum
}

func (d *Docker) known(ctx context.Context) (Info, bool, error) {
	d.mu.Lock()
	info, asked, overlay := d.info, d.asked, d.overlay
	d.mu.Unlock()
	if asked {
		return info, overlay, nil
	}
	if _, err := d.Info(ctx); err != nil {
		return Info{}, false, err
	}
	return d.known(ctx)
}

// Create implements Driver.
func (d *Docker) Create(ctx context.Context, c Container) error {
	info, overlay, err := d.known(ctx)
	if err != nil {
		return err
	}
	if !overlay {
		return &Error{Code: "engine", Reason: "this host cannot limit an instance's disk: " + info.Problem}
	}
	if c.Isolation != "" && !slices.Contains(info.Isolation, c.Isolation) {
		return &Error{Code: "engine", Reason: fmt.Sprintf("the isolation %q was asked for and this host offers %s", c.Isolation, strings.Join(info.Isolation, ", "))}
	}
	v := d.volume(c.LeaseID)
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return err
	}
	// The network takes tens of milliseconds of the engine's time, the disk of
	// ours: side by side.
	netDone := make(chan error, 1)
	go func() { netDone <- d.makeNetwork(ctx, c.LeaseID, access{c.OpenPrivate, portList(c.EgressPorts)}) }()
	err = v.create(c.DiskMiB)
	if err == nil {
		err = v.open()
	}
	if err == nil {
		err = d.writeFiles(v, c)
	}
	if err == nil {
		err = d.joinVolumes(c)
	}
	if netErr := <-netDone; err == nil {
		err = netErr
	}
	if err != nil {
		return err
	}

	profile, err := d.seccompOption(info.Name)
	if err != nil {
		return err
	}
	config, hostConfig := d.describe(v, c)
	hostConfig.SecurityOpt = append(hostConfig.SecurityOpt, profile)
	r, err := d.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: containerName(c.LeaseID), Config: config, HostConfig: hostConfig,
		NetworkingConfig: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{networkName(c.LeaseID): {}}},
	})
	if err != nil {
		return classify("create the container", err)
	}
	in, err := d.api.ContainerInspect(ctx, r.ID, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspect the container: %w", err)
	}
	layer, err := layerDir(in.Container)
	if err != nil {
		return &Error{Code: "engine", Reason: err.Error()}
	}
	if err := v.bind(layer); err != nil {
		return err
	}
	return v.noteImage(c.Image.ID)
}

// layerDir is the engine's folder of a container's writable layer.
func layerDir(c container.InspectResponse) (string, error) {
	if c.GraphDriver == nil || c.GraphDriver.Data["UpperDir"] == "" {
		return "", errors.New("the engine does not say where it keeps a container's writable layer, so its disk cannot be limited; turn off the engine's containerd image store")
	}
	return filepath.Dir(c.GraphDriver.Data["UpperDir"]), nil
}

// writeFiles makes the files that are mounted into the container.
func (d *Docker) writeFiles(v volume, c Container) error {
	settings, err := json.Marshal(c.Settings)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(v.settings(), "instance.json"), settings, 0o600); err != nil {
		return err
	}
	// The engine would mount files of its own folder, writable and outside the
	// disk's limit. These are on the disk.
	var resolv strings.Builder
	for _, a := range d.nameserv {
		fmt.Fprintf(&resolv, "nameserver %s\n", a)
	}
	host := hostname(c.LeaseID)
	for name, text := range map[string]string{
		"hostname":    host + "\n",
		"hosts":       "127.0.0.1\tlocalhost\n127.0.1.1\t" + host + "\n" + nodeHosts(c.Settings.Cluster),
		"resolv.conf": resolv.String(),
	} {
		p := filepath.Join(v.etc(), name)
		// A renter owned this folder's files: never write through a link of theirs.
		if err := os.RemoveAll(p); err != nil {
			return err
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			return &Error{Code: "disk_full", Reason: "the lease's disk is full, so that the instance's own files do not fit; the disk is kept as it is"}
		}
	}
	return nil
}

// nodeHosts are the lines by which an instance knows the nodes of its cluster.
func nodeHosts(c *protocol.Cluster) string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, n := range c.Nodes {
		fmt.Fprintf(&b, "%s\t%s\n", n.Address, n.Name)
	}
	return b.String()
}

func hostname(lease string) string {
	if len(lease) > 63 {
		return lease[:63]
	}
	return lease
}

func (d *Docker) describe(v volume, c Container) (*container.Config, *container.HostConfig) {
	entry := c.Entrypoint
	if entry == nil {
		entry = []string{protocol.InstanceBinary, "instance", "init"}
	}
	// Images and renters must not widen what they get: without GPUs the NVIDIA
	// hook is told "void", and what the attachment says always comes last.
	env := map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"}
	for k, val := range c.GPUs.Env {
		env[k] = val
	}
	config := &container.Config{
		Hostname: hostname(c.LeaseID), User: "0:0", Image: c.Image.ID,
		Entrypoint: entry, Cmd: []string{}, WorkingDir: "/",
		Labels: map[string]string{
			labelHost: d.cfg.HostID, labelLease: c.LeaseID, labelGeneration: strconv.FormatInt(c.Generation, 10),
			labelGPUs: strings.Join(c.GPUUUIDs, ","), labelDisk: strconv.FormatInt(c.DiskMiB, 10),
		},
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	for k, val := range env {
		config.Env = append(config.Env, k+"="+val)
	}
	slices.Sort(config.Env)
	pids := c.PIDs
	memory := c.MemoryMiB << 20
	no := false
	h := &container.HostConfig{
		LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": strconv.Itoa(logFileMiB) + "m", "max-file": strconv.Itoa(logFiles)}},
		NetworkMode:   container.NetworkMode(networkName(c.LeaseID)),
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		CapDrop:       []string{"ALL"}, CapAdd: addedCapabilities,
		SecurityOpt: []string{"no-new-privileges"},
		ShmSize:     max(c.ShmMiB, 1) << 20,
		Runtime:     c.Isolation,
		Init:        &no,
		GroupAdd:    c.GPUs.Groups,
		Resources: container.Resources{
			Memory: memory, MemorySwap: memory, NanoCPUs: c.CPUMillis * 1_000_000, PidsLimit: &pids,
		},
		Mounts: []mount.Mount{
			bind(d.cfg.Binary, protocol.InstanceBinary, true),
			bind(filepath.Join(v.settings(), "instance.json"), protocol.InstanceConfig, true),
			bind(v.run(), protocol.InstanceRunDir, false),
			bind(filepath.Join(v.etc(), "hosts"), "/etc/hosts", false),
			bind(filepath.Join(v.etc(), "hostname"), "/etc/hostname", false),
			bind(filepath.Join(v.etc(), "resolv.conf"), "/etc/resolv.conf", false),
		},
	}
	for _, m := range c.Volumes {
		h.Mounts = append(h.Mounts, bind(d.kept(m.VolumeID).content(), m.Path, m.ReadOnly))
	}
	for _, m := range c.GPUs.Mounts {
		h.Mounts = append(h.Mounts, bind(m.Source, m.Target, true))
	}
	for _, dev := range c.GPUs.Devices {
		// Named one by one, not only through the NVIDIA hook: a reload of the
		// host's service manager rewrites device rules and would take the GPUs away.
		h.Devices = append(h.Devices, container.DeviceMapping{PathOnHost: dev, PathInContainer: dev, CgroupPermissions: "rw"})
	}
	if len(c.GPUs.NVIDIA) > 0 {
		h.DeviceRequests = []container.DeviceRequest{{Driver: "nvidia", DeviceIDs: c.GPUs.NVIDIA, Capabilities: [][]string{{"gpu", "compute", "utility", "graphics", "video", "display"}}}}
	}
	if len(c.DirectPorts) > 0 {
		config.ExposedPorts = network.PortSet{}
		h.PortBindings = network.PortMap{}
		for inside, outside := range c.DirectPorts {
			if p, ok := network.PortFrom(uint16(inside), network.TCP); ok {
				config.ExposedPorts[p] = struct{}{}
				h.PortBindings[p] = []network.PortBinding{{HostIP: netip.IPv4Unspecified(), HostPort: strconv.Itoa(outside)}}
			}
		}
	}
	return config, h
}

func bind(source, target string, readOnly bool) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly, BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}}
}

func networkName(lease string) string { return "suanli-" + lease }

// makeNetwork makes the lease's own network, isolated before anything can use it.
func (d *Docker) makeNetwork(ctx context.Context, lease string, open access) error {
	if err := d.fw.add(lease, open); err != nil {
		return err
	}
	d.nets.Lock()
	defer d.nets.Unlock()
	list, err := d.api.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		return fmt.Errorf("list networks: %w", err)
	}
	used := map[netip.Prefix]bool{}
	for _, n := range list.Items {
		if n.Name == networkName(lease) && n.Labels[labelHost] == d.cfg.HostID {
			return nil
		}
		for _, c := range n.IPAM.Config {
			used[c.Subnet] = true
		}
	}
	// Another engine on this host may have networks of its own from the same
	// pool, which this engine does not list.
	for _, p := range hostPrefixes(func(string) bool { return true }) {
		used[p] = true
	}
	count := 1 << (leaseBits - d.fw.pool.Bits())
	for i := range count {
		// Two agents that look at the same moment rarely begin at the same place.
		prefix, gateway, ok := subnet(d.fw.pool, (firstSubnet(lease, count)+i)%count)
		if !ok {
			break
		}
		taken := false
		for u := range used {
			taken = taken || u.Overlaps(prefix)
		}
		if taken {
			continue
		}
		_, err := d.api.NetworkCreate(ctx, networkName(lease), client.NetworkCreateOptions{
			Driver: "bridge",
			IPAM:   &network.IPAM{Config: []network.IPAMConfig{{Subnet: prefix, Gateway: gateway}}},
			Options: map[string]string{
				"com.docker.network.bridge.name":       bridgeName(lease),
				"com.docker.network.bridge.enable_icc": "false",
			},
			Labels: map[string]string{labelHost: d.cfg.HostID, labelLease: lease, labelOpen: strconv.FormatBool(open.private), labelPorts: open.ports},
		})
		switch {
		case err == nil:
			return nil
		case strings.Contains(err.Error(), "overlap"):
			used[prefix] = true // something on the host that the engine does not list
		default:
			return classify("make the instance's network", err)
		}
	}
	return &Error{Code: "engine", Reason: fmt.Sprintf("every network of %s is in use on this host", d.fw.pool)}
}

// Start implements Driver.
func (d *Docker) Start(ctx context.Context, lease string) error {
	name := containerName(lease)
	before, err := d.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspect the container: %w", err)
	}
	v := d.volume(lease)
	layer, err := layerDir(before.Container)
	if err != nil {
		return &Error{Code: "engine", Reason: err.Error()}
	}
	mounts, err := mountTable()
	if err != nil {
		return err
	}
	// After a restart of the host nothing is mounted.
	if err := d.openVolumes(lease); err != nil {
		return err
	}
	if !mounts.at(layer) {
		if err := v.open(); err != nil {
			return err
		}
		if err := v.bind(layer); err != nil {
			return err
		}
	}
	if _, err := d.api.ContainerStart(ctx, name, client.ContainerStartOptions{}); err != nil {
		return classify("start the container", err)
	}
	// Proof, at every start, that the writable layer is on the lease's disk and
	// not on the host's: the overlay reports the size of what is under it.
	var disk, root unix.Statfs_t
	err = errors.Join(unix.Statfs(v.mount(), &disk), unix.Statfs(filepath.Join(layer, "merged"), &root))
	if err != nil || disk.Blocks != root.Blocks {
		kill := 0
		_, stopErr := d.api.ContainerStop(context.WithoutCancel(ctx), name, client.ContainerStopOptions{Timeout: &kill})
		return &Error{Code: "engine", Reason: fmt.Sprintf("the instance was stopped at once, because its root is not on its limited disk; the engine has to share the agent's mount namespace (%v)", errors.Join(err, stopErr))}
	}
	after, err := d.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if err == nil {
		d.remember(lease, after.Container)
	}
	return nil
}

func (d *Docker) remember(lease string, c container.InspectResponse) string {
	address := ""
	if c.NetworkSettings != nil {
		for _, e := range c.NetworkSettings.Networks {
			if e != nil && e.IPAddress.IsValid() {
				address = e.IPAddress.String()
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if address == "" {
		delete(d.addr, lease)
	} else {
		d.addr[lease] = address
	}
	return address
}

// Stop implements Driver.
func (d *Docker) Stop(ctx context.Context, lease string, grace time.Duration) error {
	seconds := int(grace / time.Second)
	d.mu.Lock()
	delete(d.addr, lease)
	d.mu.Unlock()
	_, err := d.api.ContainerStop(ctx, containerName(lease), client.ContainerStopOptions{Timeout: &seconds})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("stop the container: %w", err)
	}
	return nil
}

// Remove implements Driver.
func (d *Docker) Remove(ctx context.Context, lease string) error {
	v := d.volume(lease)
	name := containerName(lease)
	in, err := d.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("inspect the container: %w", err)
	default:
		if in.Container.Config == nil || in.Container.Config.Labels[labelHost] != d.cfg.HostID {
			return fmt.Errorf("the container %s was not made by this agent; it is left alone", name)
		}
		if in.Container.State != nil && in.Container.State.Running {
			return fmt.Errorf("the container %s still runs", name)
		}
		if err := v.unbind(); err != nil {
			return err
		}
		if layer, err := layerDir(in.Container); err == nil {
			mounts, err := mountTable()
			if err != nil {
				return err
			}
			if under := mounts.under(layer); mounts.at(layer) || len(under) > 0 {
				for _, m := range append(under, layer) {
					if err := unmountAt(m); err != nil {
						return err
					}
				}
				if mounts, err = mountTable(); err != nil || mounts.at(layer) {
					return fmt.Errorf("the lease's disk is still bound under its container; removing that now would empty the disk (%v)", err)
				}
			}
		}
		if _, err := d.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true}); err != nil && !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("remove the container: %w", err)
		}
	}
	if err := d.leaveVolumes(lease); err != nil {
		return err
	}
	if err := v.close(); err != nil {
		return err
	}
	// Earlier agents kept it beside the disk.
	if err := os.Remove(filepath.Join(v.dir, "instance.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := d.api.NetworkRemove(ctx, networkName(lease), client.NetworkRemoveOptions{}); err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("remove the instance's network: %w", err)
	}
	return d.fw.remove(lease)
}

// Erase implements Driver.
func (d *Docker) Erase(ctx context.Context, lease string) error {
	if err := d.Remove(ctx, lease); err != nil {
		return err
	}
	if err := d.volume(lease).erase(); err != nil {
		return err
	}
	d.makeRoom(ctx, 0) // its image may be one too many now
	return nil
}

// Inspect implements Driver.
func (d *Docker) Inspect(ctx context.Context, lease string) (State, error) {
	r, err := d.api.ContainerInspect(ctx, containerName(lease), client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return State{LeaseID: lease}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("inspect the container: %w", err)
	}
	c := r.Container
	s := State{LeaseID: lease, Exists: true}
	if c.Config != nil {
		fillLabels(&s, c.Config.Labels)
	}
	if c.State != nil {
		s.Running = c.State.Running
		s.NeverRan = c.State.Status == container.StateCreated
		s.ExitCode, s.OOMKilled, s.Error = c.State.ExitCode, c.State.OOMKilled, c.State.Error
		s.StartedAt, _ = time.Parse(time.RFC3339Nano, c.State.StartedAt)
		s.FinishedAt, _ = time.Parse(time.RFC3339Nano, c.State.FinishedAt)
	}
	if s.Running {
		d.remember(lease, c)
	}
	return s, nil
}

func fillLabels(s *State, labels map[string]string) {
	s.Generation, _ = strconv.ParseInt(labels[labelGeneration], 10, 64)
	s.DiskMiB, _ = strconv.ParseInt(labels[labelDisk], 10, 64)
	if g := labels[labelGPUs]; g != "" {
		s.GPUs = strings.Split(g, ",")
	}
}

// List implements Driver.
func (d *Docker) List(ctx context.Context) ([]State, error) {
	r, err := d.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelHost+"="+d.cfg.HostID)})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var states []State
	for _, c := range r.Items {
		s := State{LeaseID: c.Labels[labelLease], Exists: true, Running: c.State == container.StateRunning, NeverRan: c.State == container.StateCreated}
		fillLabels(&s, c.Labels)
		states = append(states, s)
	}
	return states, nil
}

// Watch implements Driver.
func (d *Docker) Watch(ctx context.Context, changed func(string)) error {
	r := d.api.Events(ctx, client.EventsListOptions{Filters: make(client.Filters).Add("type", "container").Add("event", "die", "start", "destroy", "oom").Add("label", labelHost+"="+d.cfg.HostID)})
	for {
		select {
		case m, ok := <-r.Messages:
			if !ok {
				return errors.New("the engine stopped sending events")
			}
			if lease := m.Actor.Attributes[labelLease]; lease != "" {
				changed(lease)
			}
		case err := <-r.Err:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stats implements Driver.
func (d *Docker) Stats(ctx context.Context, lease string) (Stats, error) {
	r, err := d.api.ContainerStats(ctx, containerName(lease), client.ContainerStatsOptions{})
	if err != nil {
		return Stats{}, fmt.Errorf("read the container's usage: %w", err)
	}
	defer r.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		return Stats{}, fmt.Errorf("read the container's usage: %w", err)
	}
	memory := s.MemoryStats.Usage
	for _, cache := range []string{"total_inactive_file", "inactive_file"} { // cgroup v1, v2
		if v, ok := s.MemoryStats.Stats[cache]; ok && v < memory {
			memory -= v
			break
		}
	}
	return Stats{CPU: time.Duration(s.CPUStats.CPUUsage.TotalUsage), MemoryBytes: int64(memory), DiskBytes: d.volume(lease).usedBytes()}, nil
}

// Logs implements Driver.
func (d *Docker) Logs(ctx context.Context, lease string, o protocol.LogOptions, w io.Writer) error {
	tail := "all"
	if o.Tail > 0 {
		tail = strconv.Itoa(o.Tail)
	}
	r, err := d.api.ContainerLogs(ctx, containerName(lease), client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: o.Follow, Tail: tail})
	if cerrdefs.IsNotFound(err) {
		return ErrNotRunning
	}
	if err != nil {
		return fmt.Errorf("read the container's output: %w", err)
	}
	defer r.Close()
	_, err = stdcopy.StdCopy(w, w, bufio.NewReaderSize(r, 64<<10))
	return err
}

// Dial implements Driver.
func (d *Docker) Dial(ctx context.Context, lease string, port int) (net.Conn, error) {
	d.mu.Lock()
	address := d.addr[lease]
	d.mu.Unlock()
	if address == "" {
		s, err := d.Inspect(ctx, lease)
		if err != nil {
			return nil, err
		}
		if !s.Running {
			return nil, ErrNotRunning
		}
		d.mu.Lock()
		address = d.addr[lease]
		d.mu.Unlock()
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
}

// Namespace implements Driver.
func (d *Docker) Namespace(ctx context.Context, lease string) (*os.File, error) {
	pid := func() (int, string, error) {
		r, err := d.api.ContainerInspect(ctx, containerName(lease), client.ContainerInspectOptions{})
		if err != nil {
			return 0, "", fmt.Errorf("inspect the container: %w", err)
		}
		if r.Container.State == nil || !r.Container.State.Running || r.Container.State.Pid == 0 {
			return 0, "", ErrNotRunning
		}
		isolation := ""
		if r.Container.HostConfig != nil {
			isolation = r.Container.HostConfig.Runtime
		}
		return r.Container.State.Pid, isolation, nil
	}
	n, isolation, err := pid()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(isolation, "runsc") {
		return nil, &Error{Code: "engine", Reason: "instances under gVisor have a network stack of their own, which sees no device that is added later; take hosts with runc or crun"}
	}
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(n), "ns", "net"))
	if err != nil {
		return nil, fmt.Errorf("open the instance's network: %w", err)
	}
	// The process may have ended, and its number been given to another one.
	if again, _, err := pid(); err != nil || again != n {
		_ = f.Close()
		return nil, ErrNotRunning
	}
	return f, nil
}

// Exec implements Driver.
func (d *Docker) Exec(ctx context.Context, lease string, args []string) ([]byte, error) {
	made, err := d.api.ExecCreate(ctx, containerName(lease), client.ExecCreateOptions{
		User: "0:0", AttachStdout: true, WorkingDir: "/", Cmd: append([]string{protocol.InstanceBinary}, args...),
	})
	if err != nil {
		return nil, fmt.Errorf("run something inside the container: %w", err)
	}
	r, err := d.api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, fmt.Errorf("run something inside the container: %w", err)
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, r.Close) // the stream itself knows no context
	defer stop()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, io.Discard, io.LimitReader(r.Reader, 64<<10)); err != nil {
		return nil, fmt.Errorf("read what was run inside the container: %w", err)
	}
	ended, err := d.api.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask how what was run inside the container ended: %w", err)
	}
	// Its output may end a moment before the engine knows of its end.
	if !ended.Running && ended.ExitCode != 0 {
		return nil, fmt.Errorf("what was run inside the container ended with exit code %d", ended.ExitCode)
	}
	return out.Bytes(), nil
}

// Report implements Driver.
func (d *Docker) Report(lease string) (protocol.InstanceReport, bool) {
	return readReport(d.volume(lease).run())
}

// readReport reads status.json as what it is: a file that a renter can replace by
// anything.
func readReport(dir string) (protocol.InstanceReport, bool) {
	fd, err := unix.Open(filepath.Join(dir, "status.json"), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return protocol.InstanceReport{}, false
	}
	f := os.NewFile(uintptr(fd), "status.json")
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || time.Since(st.ModTime()) > 30*time.Second {
		return protocol.InstanceReport{}, false
	}
	var r protocol.InstanceReport
	if json.NewDecoder(io.LimitReader(f, 64<<10)).Decode(&r) != nil {
		return protocol.InstanceReport{}, false
	}
	return r, true
}

// Traffic implements Driver.
func (d *Docker) Traffic(context.Context) (map[string]Traffic, error) {
	t, err := d.fw.read()
	if err == nil {
		return t, nil
	}
	// Somebody flushed the host's rules. Renters must not run on without them.
	d.log().Warn("firewall rules of instances were missing and are restored", "reason", err)
	if err := d.fw.rebuild(nil); err != nil {
		return nil, err
	}
	return d.fw.read()
}

// Sweep implements Driver.
func (d *Docker) Sweep(ctx context.Context, keep func(string) bool) error {
	r, err := d.api.NetworkList(ctx, client.NetworkListOptions{Filters: make(client.Filters).Add("label", labelHost+"="+d.cfg.HostID)})
	if err != nil {
		return fmt.Errorf("list networks: %w", err)
	}
	errs := []error{d.sweepVolumes(keep)}
	for _, n := range r.Items {
		if lease := n.Labels[labelLease]; !keep(lease) {
			if _, err := d.api.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil && !cerrdefs.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("remove the network of lease %s: %w", lease, err))
				continue
			}
			errs = append(errs, d.fw.remove(lease))
		} else if err := d.fw.add(lease, access{n.Labels[labelOpen] == "true", n.Labels[labelPorts]}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// OnDisk reports whether a file that an instance wrote is on its lease's disk, where
// a stop leaves it. The lease has to have a container.
func (d *Docker) OnDisk(lease, path string) bool {
	root, err := os.OpenRoot(filepath.Join(d.volume(lease).layer(), "diff"))
	if err != nil {
		return false
	}
	defer root.Close()
	st, err := root.Lstat(strings.TrimPrefix(path, "/"))
	return err == nil && st.Mode().IsRegular()
}

// Drops is how many bytes the rules have refused so far; the self-test compares it.
func (d *Docker) Drops() uint64 { return d.fw.drops() }

// Close implements Driver. Instances run on and stay isolated.
func (d *Docker) Close() error { return d.api.Close() }

// classify turns an engine's answer that retrying will not change into an Error.
func classify(what string, err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "port is already allocated"), strings.Contains(text, "address already in use"):
		return &Error{Code: "port_taken", Reason: "a direct port of the lease is in use on the host: " + text}
	case strings.Contains(text, "unsatisfied condition: cuda"):
		return &Error{Code: "driver_too_old", Reason: "the image needs a newer CUDA than this host's driver offers; choose an older image, or an offer with a higher CUDA version: " + text}
	case strings.Contains(text, "could not select device driver"), strings.Contains(text, "nvidia-container-cli"), strings.Contains(text, "error gathering device information"):
		return &Error{Code: "gpu_missing", Reason: "the engine cannot give the container its GPUs (is the NVIDIA container toolkit installed?): " + text}
	case strings.Contains(text, "no space left on device"):
		return &Error{Code: "disk_full", Reason: "no space was left while the agent tried to " + what + ": " + text}
	}
	return fmt.Errorf("%s: %w", what, err)
}
