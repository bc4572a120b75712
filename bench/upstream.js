import { once } from 'node:events'
import { createServer } from 'node:http'

/** Starts what answers behind a gate, in this process. */
export const startUpstream = async handle => {
  const server = createServer(handle)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}
