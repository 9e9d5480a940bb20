package core

import (
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// checkProfile returns what is unsafe in a profile that uses the plugin: an extension point that it is
// missing from, or another plugin that would evict or bind without it.
func checkProfile(profile *config.Plugins, args *Args) error {
	for point, set := range map[string]config.PluginSet{
		"preEnqueue": profile.PreEnqueue,
		"preFilter":  profile.PreFilter,
		"filter":     profile.Filter,
		"postFilter": profile.PostFilter,
		"reserve":    profile.Reserve,
		"permit":     profile.Permit,
		"postBind":   profile.PostBind,
	} {
		if place(set, Name) < 0 {
			return fmt.Errorf("%s is not enabled at %s: enable it at multiPoint", Name, point)
		}
	}
	if place(profile.PostFilter, defaultpreemption.Name) >= 0 {
		return fmt.Errorf("%s evicts without asking: disable it, %s takes its place", defaultpreemption.Name, Name)
	}
	if args.Barrier == Bind {
		ours, other := place(profile.Bind, Name), place(profile.Bind, defaultbinder.Name)
		if ours < 0 || (other >= 0 && other < ours) {
			return fmt.Errorf("barrier: Bind needs %s before %s: enable it at bind too", Name, defaultbinder.Name)
		}
	}
	return nil
}

func place(set config.PluginSet, name string) int {
	for index, each := range set.Enabled {
		if each.Name == name {
			return index
		}
	}
	return -1
}
