import fp from 'fastify-plugin'

/** Writes one line for each request, at its end. It names the route, not the target: a query may hold secrets. */
export default fp(async app => {
  if (!['info', 'debug', 'trace'].includes(app.settings.server.logLevel)) return

  app.onRequestEnd((request, { end, status, ms, route, call, upgrade }) => {
    // Balancers and collectors ask all the time.
    request.log[request.routeOptions.config.essential ? 'debug' : 'info']({
      method: request.method,
      route,
      status,
      end,
      scheme: request.auth?.scheme,
      mcp: call,
      ms: Math.round(ms * 100) / 100,
      ...upgrade
    }, end === 'answered' ? 'request answered' : 'request ended')
  })
}, { name: 'request-log', dependencies: ['request-end'] })
