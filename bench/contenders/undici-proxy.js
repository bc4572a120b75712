import { createServer } from 'node:http'
import { Agent } from 'undici'

// A reverse proxy of twenty lines, which guards nothing: Node's server and undici's dispatch.
const agent = new Agent({ connections: 128 })
const origin = process.env.UPSTREAM

createServer((request, response) => {
  agent.dispatch({
    origin,
    path: request.url,
    method: request.method,
    headers: request.rawHeaders,
    body: request.method === 'GET' ? null : request
  }, {
    onConnect () {},
    onHeaders: (status, headers, resume) => {
      response.writeHead(status, headers.map(text => text.toString('latin1')))
      return response.on('drain', resume)
    },
    onData: chunk => response.write(chunk),
    onComplete: () => response.end(),
    onError: () => response.destroy()
  })
}).listen(Number(process.env.PORT), '127.0.0.1')
