// The same answer as answer.mjs gives, by net/http.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

var notCounted = regexp.MustCompile(`^(host|connection|upgrade|http2-settings|expect|transfer-encoding|content-length|forwarded|x-forwarded-.*|x-auth-.*|x-request-id|via)$`)

func answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	lines := []string{}
	for name, values := range r.Header {
		for _, value := range values {
			if lower := strings.ToLower(name); !notCounted.MatchString(lower) {
				lines = append(lines, lower+": "+value)
			}
		}
	}
	sort.Strings(lines)
	hash := sha256.Sum256(body)
	query := r.URL.Query()
	seen, _ := json.Marshal(map[string]any{"method": r.Method, "target": r.RequestURI, "lines": lines, "hash": hex.EncodeToString(hash[:]), "bytes": len(body)})
	size, _ := strconv.Atoi(query.Get("size"))
	text := append(seen, strings.Repeat("x", size)...)
	status, err := strconv.Atoi(query.Get("status"))
	if err != nil {
		status = 200
	}
	header := w.Header()
	header["Content-Type"] = []string{"text/plain; charset=utf-8"}
	header["X-A"] = []string{"b"}
	header["Cache-Control"] = []string{"no-cache, private"}
	header["Set-Cookie"] = []string{"a=1", "b=2"}
	if !query.Has("chunked") && status != 204 && status != 304 {
		header.Set("Content-Length", strconv.Itoa(len(text)))
	}
	w.WriteHeader(status)
	if status == 204 || status == 304 {
		return
	}
	w.Write(text[:10])
	if query.Has("chunked") {
		w.(http.Flusher).Flush()
	}
	w.Write(text[10:])
}

func main() {
	http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(answer))
}
