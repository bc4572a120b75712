export default async function routes (app) {
  app.get('/orders', { onRequest: app.requireScope('read:orders') }, request => ({ of: request.user.sub }))
}
