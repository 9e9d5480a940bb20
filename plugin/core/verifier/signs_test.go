package verifier

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestSignsOfWatches(t *testing.T) {
	words := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, asked *http.Request) {
		answer.WriteHeader(http.StatusOK)
		answer.(http.Flusher).Flush()
		for word := range words {
			_, _ = io.WriteString(answer, word)
			answer.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	defer close(words)
	at := time.Unix(1000, 0)
	s := newSigns()
	s.now = func() time.Time { return at }
	client := &http.Client{Transport: s.wrap(http.DefaultTransport)}
	if s.age() != 0 {
		t.Errorf("nothing is watched yet: %v", s.age())
	}
	response, err := client.Get(server.URL + "/api/v1/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(90 * time.Second)
	if s.age() != 90*time.Second {
		t.Errorf("a silent watch: %v", s.age())
	}
	words <- "event"
	if _, err := response.Body.Read(make([]byte, 100)); err != nil || s.age() != 0 {
		t.Errorf("a watch that was heard: %v, %v", err, s.age())
	}
	at = at.Add(time.Minute)
	_ = response.Body.Close()
	if s.age() != time.Minute {
		t.Errorf("a watch that has ended ages: %v", s.age())
	}
}

func TestNothingIsWritten(t *testing.T) {
	client := &http.Client{Transport: newSigns().wrap(http.DefaultTransport)}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		request, _ := http.NewRequest(method, "http://127.0.0.1:1/api/v1/pods", nil)
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			t.Errorf("%s was sent", method)
		}
	}
}
