import type { FastifyRequest } from 'fastify'

/** What `npm run dev` sends with each call that it makes of the API by itself, such as to try what it prints. */
export const OWN_CALL: Readonly<Record<string, string>> = { 'user-agent': 'npm run dev' }

/** Those calls leave no line in the log, unless something is wrong. */
export async function logOwnCallsQuietly (request: FastifyRequest): Promise<void> {
  if (request.headers['user-agent'] === OWN_CALL['user-agent']) request.log.level = 'warn'
}
