import { Agent, createServer, request as ask } from 'node:http'

// A reverse proxy of a few lines, which guards nothing: Node's server and its own client.
const agent = new Agent({ keepAlive: true })
const { hostname, port } = new URL(process.env.UPSTREAM)

createServer((request, response) => {
  const { method, url: path, rawHeaders: headers } = request
  const sent = ask({ agent, hostname, port, method, path, headers }, answer => {
    response.writeHead(answer.statusCode, answer.rawHeaders)
    answer.pipe(response)
  })
  sent.on('error', () => response.destroy())
  request.pipe(sent)
}).listen(Number(process.env.PORT), '127.0.0.1')
