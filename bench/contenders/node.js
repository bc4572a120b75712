import { createServer } from 'node:http'

// Node's own server and nothing else: what the bytes of a request cost before they are used.
createServer((request, response) => {
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 2 }).end('{}')
}).listen(Number(process.env.PORT), '127.0.0.1')
