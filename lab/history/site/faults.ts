import { setTimeout as delay } from 'node:timers/promises'
import type { Part } from './ledger.ts'
import type { Planned, Step } from './plan.ts'
import type { Member, Site } from './site.ts'

export interface Fault extends Planned {
  part: Part
  /** What a good request may come to that needs this part meanwhile. Nothing: the fault must not be felt. */
  excuses: readonly string[]
  /** How long the effect outlasts the cure. */
  settlesMs?: number
  /** @returns the cure */
  begin (site: Site, step: Step<Fault>): Promise<Cure> | Cure
}

type Cure = () => Promise<void> | void

const ready = async ({ members }: Site) => {
  await Promise.all(members.map(member => member.untilReady()))
}
/** One that may be replaced: the first instance lives from the beginning to the end. */
const replaceable = ({ instances: [, ...others] }: Site, { choice }: Step<Fault>) =>
  others[choice % others.length]!
const anyInstance = ({ instances }: Site, { choice }: Step<Fault>) => instances[choice % instances.length]!

async function kill (member: Member) {
  member.isEnding = true
  member.instance.signal('SIGKILL')
  await member.instance.ended
  return () => member.start()
}

async function roll (member: Member) {
  member.isEnding = true
  member.instance.terminate()
  const code = await member.instance.ended
  if (code !== 0) throw new Error(`${member.name} ended with ${code} after SIGTERM`)
  return () => member.start()
}

const leap = (name: string, offsetMs: number, excuses: readonly string[]): Fault => ({
  name,
  part: 'clock',
  lastsMs: [1000, 4000],
  excuses,
  // A refusal of an opaque token is kept for 5 seconds.
  settlesMs: 5500,
  async begin (site, step) {
    const member = anyInstance(site, step)
    await member.setClock(offsetMs)
    return () => member.setClock(0)
  }
})

/** One at a time of these. */
export const INNER_FAULTS: readonly Fault[] = [
  {
    name: 'Redis is killed',
    part: 'redis',
    lastsMs: [200, 2000],
    excuses: ['503'],
    async begin (site) {
      await site.redis.kill()
      return async () => {
        await site.redis.start()
        await ready(site)
      }
    }
  },
  {
    name: 'Redis hangs',
    part: 'redis',
    lastsMs: [200, 2000],
    excuses: ['503'],
    begin (site) {
      site.redis.signal('SIGSTOP')
      return async () => {
        site.redis.signal('SIGCONT')
        await ready(site)
      }
    }
  },
  {
    name: 'Redis is slow',
    part: 'redis',
    lastsMs: [1000, 3000],
    // Each takes up to half of what the service allows. On a busy machine that may be too much.
    excuses: ['503'],
    begin (site) {
      const timer = setInterval(() => {
        site.redis.command('CLIENT', 'PAUSE', '100', 'WRITE').catch(() => {})
      }, 200)
      return async () => {
        clearInterval(timer)
        await ready(site)
      }
    }
  },
  {
    name: 'Redis is full',
    part: 'redis',
    lastsMs: [200, 2000],
    excuses: ['503'],
    async begin (site) {
      await site.redis.command('CONFIG', 'SET', 'maxmemory', '1')
      return async () => {
        await site.redis.command('CONFIG', 'SET', 'maxmemory', '0')
        await ready(site)
      }
    }
  },
  {
    name: 'the connections to Redis are cut',
    part: 'redis',
    lastsMs: [0, 300],
    excuses: ['503'],
    async begin (site) {
      await site.redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      return () => ready(site)
    }
  },
  {
    name: 'nginx is killed',
    part: 'nginx',
    lastsMs: [200, 1500],
    excuses: ['broken'],
    async begin ({ nginx }) {
      await nginx.kill()
      return () => nginx.start()
    }
  },
  {
    name: 'nginx hangs',
    part: 'nginx',
    lastsMs: [200, 2000],
    excuses: [],
    begin ({ nginx }) {
      nginx.signalAll('SIGSTOP')
      return () => nginx.signalAll('SIGCONT')
    }
  },
  {
    name: 'nginx reads its configuration again',
    part: 'nginx',
    lastsMs: [0, 300],
    // The worker that ends closes its idle connections, and a request may be on its way to it.
    excuses: ['broken'],
    begin ({ nginx }) {
      nginx.signal('SIGHUP')
      return () => delay(500)
    }
  },
  {
    name: 'an instance is killed',
    part: 'instance',
    lastsMs: [100, 1500],
    // nginx goes to the next one, which finds the proof used if the dead one has recorded it.
    excuses: ['502', 'broken', '401 invalid_dpop_proof'],
    begin: (site, step) => kill(replaceable(site, step))
  },
  {
    name: 'an instance hangs',
    part: 'instance',
    lastsMs: [200, 2500],
    // Its requests to Redis are too late then, and it takes the time for overload.
    excuses: ['503'],
    settlesMs: 7000,
    begin (site, step) {
      const { instance } = anyInstance(site, step)
      instance.signal('SIGSTOP')
      return async () => {
        instance.signal('SIGCONT')
        await ready(site)
      }
    }
  },
  {
    name: 'an instance is replaced',
    part: 'instance',
    lastsMs: [0, 300],
    excuses: [],
    begin: (site, step) => roll(replaceable(site, step))
  },
  {
    name: 'the gate is killed',
    part: 'gate',
    lastsMs: [100, 1000],
    excuses: ['broken', '503'],
    begin: ({ gate }) => kill(gate)
  }
]

/** One at a time of these, beside the others. */
export const OUTER_FAULTS: readonly Fault[] = [
  {
    name: 'the provider is down',
    part: 'introspection',
    lastsMs: [500, 5000],
    excuses: ['503'],
    async begin ({ provider: { server } }) {
      await server.stop()
      return () => server.recover()
    }
  },
  {
    name: 'the provider hangs',
    part: 'introspection',
    lastsMs: [500, 6000],
    excuses: ['503'],
    begin ({ provider: { server } }) {
      server.hang()
      return () => server.recover()
    }
  },
  {
    name: 'the provider is slow',
    part: 'introspection',
    lastsMs: [1000, 4000],
    excuses: [],
    begin ({ provider: { server } }) {
      server.slow(400)
      return () => server.recover()
    }
  },
  {
    name: 'the provider fails',
    part: 'introspection',
    lastsMs: [500, 4000],
    excuses: ['503'],
    begin ({ provider: { server } }) {
      server.fail(500)
      return () => server.recover()
    }
  },
  {
    name: 'the provider breaks off',
    part: 'introspection',
    lastsMs: [500, 4000],
    excuses: ['503'],
    begin ({ provider: { server } }) {
      server.breakOff()
      return () => server.recover()
    }
  },
  {
    name: 'the upstream is down',
    part: 'upstream',
    lastsMs: [300, 2000],
    excuses: ['502'],
    async begin ({ upstream }) {
      await upstream.stop()
      return () => upstream.recover()
    }
  },
  {
    name: 'the upstream hangs',
    part: 'upstream',
    lastsMs: [500, 4000],
    excuses: ['504'],
    begin ({ upstream }) {
      upstream.hang()
      return () => upstream.recover()
    }
  },
  {
    name: 'the upstream is slow',
    part: 'upstream',
    lastsMs: [500, 2000],
    excuses: [],
    begin ({ upstream }) {
      upstream.slow(300)
      return () => upstream.recover()
    }
  },
  {
    name: 'the upstream breaks off',
    part: 'upstream',
    lastsMs: [300, 2000],
    excuses: ['broken', '502'],
    begin ({ upstream }) {
      upstream.breakOff()
      return () => upstream.recover()
    }
  },
  leap('a clock leaps 20 seconds ahead', 20_000, []),
  leap('a clock leaps 20 seconds back', -20_000, []),
  leap('a clock leaps an hour ahead', 3_600_000, ['401 invalid_token', '401 invalid_dpop_proof']),
  leap('a clock leaps an hour back', -3_600_000, ['401 invalid_dpop_proof'])
]
