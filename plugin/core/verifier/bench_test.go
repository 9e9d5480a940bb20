package verifier

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkVerify judges a gang of 512 on 5,000 nodes with 40,000 pods: one victim a node, and with
// devices one claim of eight for each member and each victim.
func BenchmarkVerify(b *testing.B) {
	for _, claim := range []bool{false, true} {
		b.Run(fmt.Sprintf("devices=%v", claim), func(b *testing.B) {
			var objects []object
			var words []string
			if claim {
				objects = append(objects, class(""))
			}
			for at := range 5000 {
				name := fmt.Sprint("n", at)
				low, urgent := pod(fmt.Sprint("low", at), on(name), asks("cpu", "2")), pod(fmt.Sprint("urgent", at), asks("cpu", "2"))
				if claim {
					objects = append(objects, devices(name, 8)...)
					by("c"+low.Name, false)(low)
					by("c"+urgent.Name, false)(urgent)
					objects = append(objects, owned(has(wants("c"+low.Name, 8), name, low.Name), low.Name))
				} else {
					objects = append(objects, node(name))
				}
				objects = append(objects, low)
				for more := range 7 {
					objects = append(objects, pod(fmt.Sprint("small", at, "-", more), on(name), asks("cpu", "200m")))
				}
				if at < 512 {
					if claim {
						objects = append(objects, owned(wants("c"+urgent.Name, 8), urgent.Name))
					}
					objects = append(objects, urgent)
					words = append(words, "-"+low.Name, urgent.Name+">"+name)
				}
			}
			s, asked := made(b, objects...), plan(words...)
			for b.Loop() {
				if got, err := s.Verify(context.Background(), asked); err != nil || !got.Accepted {
					b.Fatal(got, err)
				}
			}
		})
	}
}
