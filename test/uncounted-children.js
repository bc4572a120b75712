import processOnSpawn from 'process-on-spawn'

/**
 * tap has each program that a test starts load its recorder, npm and the compiler as well, which made their starts half
 * as long again. What such programs run of the sources is counted in the tests of those sources: here a program runs as
 * it does elsewhere.
 */
processOnSpawn.addListener(child => {
  const { NODE_OPTIONS = '', ...env } = child.env
  child.env = Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('_TAPJS_')))
  const own = NODE_OPTIONS.replace(/"?--import=[^" ]*@tapjs\/processinfo[^" ]*"?/g, '').trim()
  if (own !== '') child.env.NODE_OPTIONS = own
})
