package verifier

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// signs notes when each watch was last heard. Its connection lets nothing but reading through: a
// plugin that would write while a plan is judged cannot.
type signs struct {
	mutex sync.Mutex
	last  map[string]time.Time
	now   func() time.Time
}

func newSigns() *signs { return &signs{last: map[string]time.Time{}, now: time.Now} }

// age returns how long the watch that was silent longest has been silent.
func (s *signs) age() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var oldest time.Duration
	for _, last := range s.last {
		oldest = max(oldest, s.now().Sub(last))
	}
	return oldest
}

func (s *signs) heard(path string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last[path] = s.now()
}

// wrap is for rest.Config.Wrap.
func (s *signs) wrap(next http.RoundTripper) http.RoundTripper { return &reading{s, next} }

type reading struct {
	signs *signs
	next  http.RoundTripper
}

func (r *reading) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return nil, fmt.Errorf("%s %s: the verifier only reads", request.Method, request.URL.Path)
	}
	response, err := r.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK || request.URL.Query().Get("watch") == "" {
		return response, err
	}
	path := request.URL.Path
	r.signs.heard(path)
	response.Body = &heardBody{response.Body, func() { r.signs.heard(path) }}
	return response, nil
}

type heardBody struct {
	io.ReadCloser
	heard func()
}

func (b *heardBody) Read(into []byte) (int, error) {
	read, err := b.ReadCloser.Read(into)
	if read > 0 {
		b.heard()
	}
	return read, err
}
