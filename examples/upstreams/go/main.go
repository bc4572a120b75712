// Install: go build -o upstream .
// Start: PORT=3000 ./upstream
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

// Caller says who sends a request. Two issuers may have the same subject for different people, so only both together say who it is.
type Caller struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
}

type claims struct {
	jwt.RegisteredClaims
	SubjectID Caller `json:"sub_id"`
	Method    string `json:"method"`
	Path      string `json:"path"`
}

type callerKey struct{}

func required(name string) string {
	value := os.Getenv(name)
	if value == "" {
		log.Fatalf("%s is not set", name)
	}
	return value
}

// readKeys keeps the keys of the gate. Anybody can name an unknown key: it has the list read again, but not more often than every five
// seconds. By the defaults of keyfunc such a request waits for up to a minute.
func readKeys(url string) (keyfunc.Keyfunc, error) {
	return keyfunc.NewDefaultOverrideCtx(context.Background(), []string{url}, keyfunc.Override{
		HTTPTimeout:       5 * time.Second,
		RefreshInterval:   5 * time.Minute,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(5*time.Second), 1),
		RateLimitWaitMax:  2 * time.Second,
	})
}

func readCaller(r *http.Request, keys keyfunc.Keyfunc, parser *jwt.Parser) (Caller, error) {
	var stated claims
	if _, err := parser.ParseWithClaims(r.Header.Get("X-Auth-Statement"), &stated, keys.Keyfunc); err != nil {
		return Caller{}, err
	}
	// r.URL.Path is decoded, and r.URL.EscapedPath() may be encoded anew.
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if stated.Method != r.Method || stated.Path != path {
		return Caller{}, errors.New("it is about another request")
	}
	if stated.SubjectID.Issuer == "" || stated.SubjectID.Subject == "" {
		return Caller{}, errors.New("it names nobody")
	}
	return stated.SubjectID, nil
}

func main() {
	keys, err := readKeys(required("STATEMENT_KEYS")) // http://GATE/.well-known/holdfast-jwks.json
	if err != nil {
		log.Fatal(err)
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{"ES256"}),
		jwt.WithIssuer(required("STATEMENT_ISSUER")),     // PUBLIC_URL of the gate
		jwt.WithAudience(required("STATEMENT_AUDIENCE")), // gate.upstream
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(5*time.Second),
	)

	mux := http.NewServeMux()
	mux.HandleFunc("/orders/{name}", func(w http.ResponseWriter, r *http.Request) {
		caller := r.Context().Value(callerKey{}).(Caller)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]string{"issuer": caller.Issuer, "subject": caller.Subject, "method": r.Method, "order": r.PathValue("name")})
	})

	checked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := readCaller(r, keys, parser)
		if err != nil {
			log.Printf("statement refused: %v", err)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+required("PORT"), checked))
}
