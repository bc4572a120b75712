import { connect, createServer } from 'node:net'

/** Passes connections on to one server, and from `to` on to another; those that are open are lost then. */
export const startRelay = async () => {
  const open = new Set()
  let target
  const server = createServer(socket => {
    const onward = connect(target, '127.0.0.1')
    const pair = [socket, onward]
    open.add(pair)
    const end = () => {
      open.delete(pair)
      for (const one of pair) one.destroy()
    }
    for (const one of pair) one.on('error', end).on('close', end)
    socket.pipe(onward).pipe(socket)
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `redis://127.0.0.1:${server.address().port}`,
    to (url) {
      target = Number(new URL(url).port)
      for (const pair of open) for (const one of pair) one.destroy()
    },
    stop: async () => {
      for (const pair of open) for (const one of pair) one.destroy()
      server.close()
    }
  }
}
