package core

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestArgumentsThatAreRefused(t *testing.T) {
	for given, why := range map[string]string{
		`{}`:                                                        "address is not given",
		`{"adress": "unix:/s"}`:                                     "unknown field",
		`{"address": "10.0.0.9:9443"}`:                              "needs caFile",
		`{"address": "extender:9443"}`:                              "needs caFile",
		`{"address": "dns:///[::1]:9"}`:                             "needs caFile",
		`{"address": "0.0.0.0:9443"}`:                               "needs caFile",
		`{"address": "unix:/s", "whenCut": "hold"}`:                 "whenCut is",
		`{"address": "unix:/s", "barrier": "None"}`:                 "barrier is",
		`{"address": "unix:/s", "certFile": "/c"}`:                  "go together",
		`{"address": "unix:/s", "certFile": "/c", "keyFile": "/k"}`: "certFile needs caFile",
		`{"address": "unix:/s", "heartbeat": "50ms"}`:               "at least 100ms",
		`{"address": "unix:/s", "callTimeout": "-1s"}`:              "negative",
		`{"address": "unix:/s", "callTimeout": "5"}`:                "missing unit",
		`{"address": "unix:/s", "callTimeout": 5}`:                  "cannot unmarshal",
	} {
		if _, err := readArgs(&runtime.Unknown{Raw: []byte(given)}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", given, err)
		}
	}
}

func TestPlainTextStaysOnTheMachine(t *testing.T) {
	for _, address := range []string{"127.0.0.1:9", "[::1]:9", "localhost:9", "unix:/s", "unix:///s"} {
		if _, err := readArgs(&runtime.Unknown{Raw: []byte(`{"address": "` + address + `"}`)}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := readArgs(&runtime.Unknown{Raw: []byte(`{"address": "10.0.0.9:9443", "caFile": "/ca"}`)}); err != nil {
		t.Error(err)
	}
}
