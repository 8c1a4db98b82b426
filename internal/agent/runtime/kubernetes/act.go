package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"suanli.dev/internal/agent/runtime"
)

// look is between looks at a pod that is waited for.
const look = 200 * time.Millisecond

// Pull implements runtime.Driver. It looks the image up; the node's kubelet fetches it
// when the pod starts.
func (d *Driver) Pull(ctx context.Context, r runtime.PullRequest) (runtime.Image, error) {
	if d.cfg.lookUp != nil {
		return d.cfg.lookUp(ctx, r)
	}
	return runtime.LookUp(ctx, r, d.cfg.InnerRegistries, d.cfg.Log)
}

// Create implements runtime.Driver.
func (d *Driver) Create(ctx context.Context, c runtime.Container) error {
	switch {
	case len(c.DirectPorts) > 0:
		return &runtime.Error{Code: "engine", Reason: "the lease asks for direct ports, and a Kubernetes cluster has none to give: reach the instance through the gateway"}
	case c.OpenPrivate:
		return &runtime.Error{Code: "engine", Reason: "the lease asks for private ranges, which in a Kubernetes cluster are its own pods and services, and they stay closed"}
	}
	if c.Isolation == "" {
		c.Isolation = d.cfg.Isolation
	}
	d.mu.Lock()
	ready := d.ready
	d.mu.Unlock()
	if !ready {
		if _, err := d.Info(ctx); err != nil {
			return err
		}
	}
	at, err := d.placeOf(ctx, c.GPUUUIDs)
	if err != nil {
		return err
	}
	if was, err := d.Inspect(ctx, c.LeaseID); err != nil {
		return err
	} else if was.Exists {
		return fmt.Errorf("lease %s has a pod", c.LeaseID)
	}
	files, names, err := d.filesOf(c)
	if err != nil {
		return err
	}
	secret, err := d.cfg.secretFor(c, files)
	if err != nil {
		return err
	}
	// What closes the network comes first, and what runs comes last.
	if err := d.putPolicy(ctx, c); err != nil {
		return err
	}
	if d.cfg.StorageClass != "" {
		if err := d.putClaim(ctx, diskName(c.LeaseID), d.cfg.labels(c.LeaseID), c.DiskMiB); err != nil {
			return err
		}
	}
	for _, v := range c.Volumes {
		_, err := d.api.CoreV1().PersistentVolumeClaims(d.cfg.Namespace).Get(ctx, volumeName(v.VolumeID), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return &runtime.Error{Code: "volume_missing", Reason: fmt.Sprintf("the volume %s is not in this cluster; what was on it may be lost: ask whoever runs the cluster", v.VolumeID)}
		}
		if err != nil {
			return fmt.Errorf("look for the volume %s: %w", v.VolumeID, err)
		}
	}
	secrets := d.api.CoreV1().Secrets(d.cfg.Namespace)
	if err := secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the settings of an earlier instance: %w", err)
	}
	if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return refusal("keep the instance's settings", err)
	}
	if _, err := d.api.CoreV1().Pods(d.cfg.Namespace).Create(ctx, d.cfg.podFor(c, at, names), metav1.CreateOptions{}); err != nil {
		return refusal("make the instance's pod", err)
	}
	return nil
}

// filesOf reads what is mounted from the agent's machine, which the nodes do not have.
func (d *Driver) filesOf(c runtime.Container) (files map[string][]byte, names map[string]string, err error) {
	files, names = map[string][]byte{}, map[string]string{}
	for _, m := range c.GPUs.Mounts {
		if m.Source == d.cfg.OwnBinary {
			continue
		}
		b, err := os.ReadFile(m.Source)
		if err != nil {
			return nil, nil, fmt.Errorf("read a file for the instance: %w", err)
		}
		name := "file-" + strconv.Itoa(len(files))
		files[name], names[m.Target] = b, name
	}
	return files, names, nil
}

func (d *Driver) putPolicy(ctx context.Context, c runtime.Container) error {
	policies := d.api.NetworkingV1().NetworkPolicies(d.cfg.Namespace)
	want := d.cfg.policyFor(c.LeaseID, c.EgressPorts, d.ownAddresses())
	_, err := policies.Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		have, getErr := policies.Get(ctx, want.Name, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("look at the lease's network policy: %w", getErr)
		}
		have.Labels, have.Spec = want.Labels, want.Spec
		_, err = policies.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return refusal("isolate the instance", err)
	}
	return nil
}

func (d *Driver) putClaim(ctx context.Context, name string, labels map[string]string, sizeMiB int64) error {
	_, err := d.api.CoreV1().PersistentVolumeClaims(d.cfg.Namespace).Create(ctx, d.cfg.claimFor(name, labels, sizeMiB), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return refusal("make a disk", err)
	}
	return nil
}

// refusal turns an answer of the API server that asking again does not change into an
// Error.
func refusal(what string, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Errorf("%s: %w", what, err)
	}
	text := status.Status().Message
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(text, "exceeded quota"):
		_, which, _ := strings.Cut(text, "exceeded quota: ")
		return &runtime.Error{Code: "host_quota", Reason: "the cluster has room, and its administrator allows leases no more of it: the resource quota " + which + "; end another lease there, or rent on another host"}
	case apierrors.IsForbidden(err) && strings.Contains(text, "violates PodSecurity"):
		return &runtime.Error{Code: "engine", Reason: "the cluster's pod security does not let the agent " + what + ": " + text}
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &runtime.Error{Code: "engine", Reason: "the cluster does not let the agent " + what + ": " + text}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Start implements runtime.Driver. It takes the gate away and waits for the node.
func (d *Driver) Start(ctx context.Context, lease string) error {
	began := time.Now()
	full := time.Time{} // since when there is no room
	for {
		pod, err := d.pod(ctx, lease)
		if err != nil {
			return err
		}
		if pod == nil {
			return fmt.Errorf("lease %s has no pod", lease)
		}
		if slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == startGate }) {
			if err := d.openGate(ctx, pod); err != nil {
				return err
			}
			continue
		}
		s := stateOf(pod)
		switch {
		case s.Running:
			return nil
		case !s.NeverRan:
			return nil // it ran and is over already, which the caller sees next
		case over(pod):
			return &runtime.Error{Code: firstOf(s.Code, "engine"), Reason: firstOf(s.Reason, "the pod ended before the instance began: "+toolsEnd(pod))}
		case pod.DeletionTimestamp != nil:
			return &runtime.Error{Code: "engine", Reason: "somebody deleted the pod before the instance began"}
		}
		if err := stuck(pod, time.Since(began)); err != nil {
			return err
		}
		wait := d.cfg.RoomWait
		why, none := noRoom(pod)
		if queued(pod) {
			why, none, wait = "the queue "+pod.Labels[kueueQueue]+" has not admitted it", true, d.cfg.QueueWait
		}
		switch {
		case !none:
			full = time.Time{}
		case full.IsZero():
			full = time.Now()
		case time.Since(full) > wait:
			return &runtime.Error{Code: "host_full", Reason: fmt.Sprintf("the cluster found no room for the instance within %s: %s", wait, why)}
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *Driver) openGate(ctx context.Context, pod *corev1.Pod) error {
	pod = pod.DeepCopy()
	pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == startGate })
	_, err := d.api.CoreV1().Pods(d.cfg.Namespace).Update(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it changed meanwhile; look again
	}
	if err != nil {
		return refusal("start the instance's pod", err)
	}
	return nil
}

// noRoom is what the scheduler says of a pod that it finds no node for.
func noRoom(pod *corev1.Pod) (why string, none bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message, true
		}
	}
	return "", false
}

// queued reports whether Kueue has not let a pod through yet.
func queued(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == kueueGate })
}

// pullPatience is how long a kubelet may fail to fetch an image: it tries again by
// itself, and the registry was there when the image was looked up.
const pullPatience = 2 * time.Minute

// stuck says why a pod that has a node will not begin.
func stuck(pod *corev1.Pod, waited time.Duration) error {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
			if waited < pullPatience && w.Reason != "InvalidImageName" {
				continue
			}
			if c.Name == toolContainer {
				return &runtime.Error{Code: "engine", Reason: fmt.Sprintf("the node cannot fetch %s, from which instances get their first process (the setting kubernetes_image): %s", c.Image, w.Message)}
			}
			// Nothing of what the registry answered: a renter chose it.
			return &runtime.Error{Code: "image_not_found", Reason: fmt.Sprintf("the node %s could not fetch the image %s within %s; its registry answers the agent and not the node, or asks for a password", pod.Spec.NodeName, c.Image, pullPatience)}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CreatePodSandboxError":
			if waited < 15*time.Second {
				continue
			}
			return &runtime.Error{Code: "engine", Reason: fmt.Sprintf("the node %s cannot start the container: %s", pod.Spec.NodeName, w.Message)}
		}
	}
	return nil
}

// toolsEnd is how the container that brings the first process ended.
func toolsEnd(pod *corev1.Pod) string {
	for _, c := range pod.Status.InitContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("%s could not install the first process (exit code %d, %s %s)", c.Image, t.ExitCode, t.Reason, t.Message)
		}
	}
	return firstOf(pod.Status.Message, pod.Status.Reason, "the cluster does not say why")
}

// pod returns nil if the lease has none.
func (d *Driver) pod(ctx context.Context, lease string) (*corev1.Pod, error) {
	pod, err := d.api.CoreV1().Pods(d.cfg.Namespace).Get(ctx, podName(lease), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the pod of lease %s: %w", lease, err)
	}
	if pod.Labels[labelHost] != d.cfg.HostID {
		return nil, fmt.Errorf("the pod %s was not made by this agent; it is left alone", pod.Name)
	}
	return pod, nil
}

// Stop implements runtime.Driver. A deadline in the past makes the node end the
// processes and keeps the pod, with what it printed; deleting it would lose that.
func (d *Driver) Stop(ctx context.Context, lease string, grace time.Duration) error {
	pod, err := d.pod(ctx, lease)
	if err != nil || pod == nil || over(pod) {
		return err
	}
	if pod.Spec.NodeName == "" { // no node has heard of it
		return d.remove(ctx, pod, 0)
	}
	pods := d.api.CoreV1().Pods(d.cfg.Namespace)
	patch := []byte(`{"spec":{"activeDeadlineSeconds":1}}`)
	if grace == 0 {
		return d.remove(ctx, pod, time.Second)
	}
	if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("stop the pod: %w", err)
	}
	patience := time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second + stopMargin
	for began := time.Now(); time.Since(began) < patience; {
		if pod, err = d.pod(ctx, lease); err != nil || pod == nil || over(pod) && !running(pod) {
			return err
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the node %s was told to end the pod %s ago and has not: %s", pod.Spec.NodeName, patience, firstOf(d.nodeProblem(ctx, pod.Spec.NodeName), "its kubelet may hang"))
}

// stopMargin is what a node may take beyond the time that processes have to end.
const stopMargin = 20 * time.Second

// running reports whether the container was last seen alive.
func running(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

func (d *Driver) nodeProblem(ctx context.Context, name string) string {
	n, err := d.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "the node is not in the cluster any more"
	}
	if err != nil {
		return err.Error()
	}
	return unready(n)
}

// remove deletes a pod and waits until the cluster has let go of it, which is when its
// node says that nothing of it runs.
func (d *Driver) remove(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	seconds := int64(grace / time.Second)
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if pod.Spec.NodeName == "" || grace > 0 {
		options.GracePeriodSeconds = &seconds
	}
	pods := d.api.CoreV1().Pods(d.cfg.Namespace)
	if err := pods.Delete(ctx, pod.Name, options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete the pod: %w", err)
	}
	patience := max(grace, d.cfg.StopGrace) + stopMargin
	for began := time.Now(); time.Since(began) < patience; {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look whether the pod is gone: %w", err)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the pod %s was deleted and is still there after %s: %s", pod.Name, patience, firstOf(d.nodeProblem(ctx, pod.Spec.NodeName), "its node has not let go of it"))
}

// Remove implements runtime.Driver.
func (d *Driver) Remove(ctx context.Context, lease string) error {
	pod, err := d.pod(ctx, lease)
	if err != nil {
		return err
	}
	if pod != nil {
		if !over(pod) && running(pod) && pod.DeletionTimestamp == nil {
			return fmt.Errorf("the pod %s still runs", pod.Name)
		}
		if err := d.remove(ctx, pod, 0); err != nil {
			return err
		}
	}
	errs := []error{
		d.api.CoreV1().Secrets(d.cfg.Namespace).Delete(ctx, podName(lease), metav1.DeleteOptions{}),
		d.api.NetworkingV1().NetworkPolicies(d.cfg.Namespace).Delete(ctx, policyName(lease), metav1.DeleteOptions{}),
	}
	d.mu.Lock()
	delete(d.reports, lease)
	d.mu.Unlock()
	return errors.Join(slices.DeleteFunc(errs, apierrors.IsNotFound)...)
}

// Erase implements runtime.Driver.
func (d *Driver) Erase(ctx context.Context, lease string) error {
	if err := d.Remove(ctx, lease); err != nil {
		return err
	}
	if d.cfg.StorageClass == "" {
		return nil
	}
	return d.removeClaim(ctx, diskName(lease))
}

// removeClaim deletes a disk and waits for it to be gone, so that what is reported as
// erased is.
func (d *Driver) removeClaim(ctx context.Context, name string) error {
	claims := d.api.CoreV1().PersistentVolumeClaims(d.cfg.Namespace)
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the disk %s: %w", name, err)
	}
	for began := time.Now(); time.Since(began) < stopMargin; {
		_, err := claims.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look whether the disk %s is gone: %w", name, err)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the disk %s was deleted and is still there after %s; a pod may hold it", name, stopMargin)
}

// lostAfter is how long a node may be silent before what it ran counts as ended: as
// long as Kubernetes itself waits before it gives the pods of a node up.
const lostAfter = 5 * time.Minute

// Inspect implements runtime.Driver.
func (d *Driver) Inspect(ctx context.Context, lease string) (runtime.State, error) {
	pod, err := d.pod(ctx, lease)
	if err != nil {
		return runtime.State{}, err
	}
	if pod == nil {
		return runtime.State{LeaseID: lease}, nil
	}
	s := stateOf(pod)
	if !s.Running {
		return s, nil
	}
	// A pod on a silent node is said to run for as long as nobody knows better.
	n, err := d.api.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.Running, s.Code, s.Reason = false, "engine", "the node "+pod.Spec.NodeName+" was taken out of the cluster"
		return s, nil
	}
	if err != nil {
		return runtime.State{}, fmt.Errorf("look at the node of lease %s: %w", lease, err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady || c.Status != corev1.ConditionUnknown {
			continue
		}
		silent := time.Since(c.LastTransitionTime.Time)
		if silent < lostAfter {
			return runtime.State{}, fmt.Errorf("the node %s has not answered the cluster for %s", n.Name, silent.Round(time.Second))
		}
		s.Running, s.FinishedAt = false, c.LastHeartbeatTime.Time
		s.Code, s.Reason = "engine", fmt.Sprintf("the node %s stopped answering the cluster at %s", n.Name, c.LastHeartbeatTime.UTC().Format(time.RFC3339))
	}
	return s, nil
}

// List implements runtime.Driver.
func (d *Driver) List(ctx context.Context) ([]runtime.State, error) {
	pods, err := d.pods(ctx)
	if err != nil {
		return nil, err
	}
	var states []runtime.State
	for i := range pods {
		states = append(states, stateOf(&pods[i]))
	}
	return states, nil
}

// Watch implements runtime.Driver.
func (d *Driver) Watch(ctx context.Context, changed func(string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pods := d.api.CoreV1().Pods(d.cfg.Namespace)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
			o.LabelSelector = d.mine()
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = d.mine()
			return pods.Watch(ctx, o)
		},
	}
	tell := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if pod, ok := o.(*corev1.Pod); ok && pod.Labels[labelLease] != "" {
			changed(pod.Labels[labelLease])
		}
	}
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(source, d.api), &corev1.Pod{}, 0)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell,
	}); err != nil {
		return err
	}
	// The informer would try again for ever; the agent wants to know at once.
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			cancel(fmt.Errorf("watch the pods of leases: %w", err))
		}
	}); err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return context.Cause(ctx)
}

// Sweep implements runtime.Driver.
func (d *Driver) Sweep(ctx context.Context, keep func(string) bool) error {
	mine := metav1.ListOptions{LabelSelector: d.mine()}
	var errs []error
	left := map[string]bool{}
	policies, err := d.api.NetworkingV1().NetworkPolicies(d.cfg.Namespace).List(ctx, mine)
	if err != nil {
		return fmt.Errorf("list the network policies of leases: %w", err)
	}
	for _, p := range policies.Items {
		left[p.Labels[labelLease]] = true
	}
	secrets, err := d.api.CoreV1().Secrets(d.cfg.Namespace).List(ctx, metav1.ListOptions{LabelSelector: d.mine()})
	if err != nil {
		return fmt.Errorf("list the settings of leases: %w", err)
	}
	for _, s := range secrets.Items {
		left[s.Labels[labelLease]] = true
	}
	pods, err := d.pods(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		delete(left, p.Labels[labelLease]) // what has a pod is looked after by its lease
	}
	for _, lease := range slices.Sorted(maps.Keys(left)) {
		if lease != "" && !keep(lease) {
			errs = append(errs, d.Remove(ctx, lease))
		}
	}
	return errors.Join(errs...)
}

// MakeVolume implements runtime.Driver.
func (d *Driver) MakeVolume(ctx context.Context, id string, sizeMiB int64) error {
	if d.cfg.StorageClass == "" {
		return &runtime.Error{Code: "engine", Reason: "this cluster keeps no volumes: its agent has no storage class (the setting kubernetes_storage_class)"}
	}
	return d.putClaim(ctx, volumeName(id), map[string]string{labelManager: manager, labelHost: d.cfg.HostID, labelVolume: id}, sizeMiB)
}

// EraseVolume implements runtime.Driver.
func (d *Driver) EraseVolume(ctx context.Context, id string) error {
	pods, err := d.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		for _, v := range pods[i].Spec.Volumes {
			if c := v.PersistentVolumeClaim; c != nil && c.ClaimName == volumeName(id) {
				return &runtime.Error{Code: "volume_in_use", Reason: fmt.Sprintf("the volume %s is in the instance of lease %s", id, pods[i].Labels[labelLease])}
			}
		}
	}
	return d.removeClaim(ctx, volumeName(id))
}

// Namespace implements runtime.Driver.
func (d *Driver) Namespace(context.Context, string) (*os.File, error) {
	return nil, &runtime.Error{Code: "engine", Reason: "instances in a Kubernetes cluster have its network, to which an agent without privileges cannot add the private network of a cluster of leases; take hosts with Docker or Podman"}
}
