// A client of the protocol by the Go SDK. Reads an act in each line, and writes an answer in each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type order struct{ Act, Tool, Token string }

type answer struct {
	Names    []string `json:"names,omitempty"`
	Text     string   `json:"text"`
	Progress int32    `json:"progress"`
	Error    string   `json:"error,omitempty"`
}

var token atomic.Value

type bearer struct{}

func (bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token.Load().(string))
	return http.DefaultTransport.RoundTrip(request)
}

func main() {
	ctx := context.Background()
	var progress atomic.Int32
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "v1.0.0"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress.Add(1) },
	})
	var session *mcp.ClientSession
	act := func(given order) (answer, error) {
		var err error
		switch given.Act {
		case "begin":
			session, err = client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Getenv("MCP_URL"), HTTPClient: &http.Client{Transport: bearer{}}}, nil)
			return answer{}, err
		case "list":
			listed, err := session.ListTools(ctx, nil)
			if err != nil {
				return answer{}, err
			}
			var names []string
			for _, tool := range listed.Tools {
				names = append(names, tool.Name)
			}
			return answer{Names: names}, nil
		}
		progress.Store(0)
		params := &mcp.CallToolParams{Name: given.Tool, Arguments: map[string]any{}}
		params.SetProgressToken("p")
		called, err := session.CallTool(ctx, params)
		if err != nil {
			return answer{}, err
		}
		return answer{Text: called.Content[0].(*mcp.TextContent).Text, Progress: progress.Load()}, nil
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given order
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		token.Store(given.Token)
		said, err := act(given)
		if err != nil {
			said.Error = err.Error()
		}
		if err := out.Encode(said); err != nil {
			panic(err)
		}
	}
}
