/**
 * What may be added to a recorded ratio before it counts as slower. Two runs on a busy machine differ by up to so much.
 */
const TOLERANCE = 1.2

/** The two ratios of a run: Holdfast to the least that the same request could cost. */
export const ratiosOf = rows => {
  const cpuOf = id => rows.find(row => row.id === id).cpuUs
  return { bearer: cpuOf('holdfast-bearer') / cpuOf('bare-bearer'), dpop: cpuOf('holdfast-dpop') / cpuOf('floor-dpop') }
}

/** The names of the ratios that are above the recorded ones. */
export const slowerThan = (recorded, ratios) =>
  Object.keys(recorded).filter(name => !(ratios[name] <= recorded[name] * TOLERANCE))

/**
 * Measures until a run is as fast as the recorded one, `tries` times at most: what disturbs a run only ever makes it
 * slower. Each ratio may have its own run.
 */
export const check = async ({ recorded, measure, tries, say }) => {
  let slow = Object.keys(recorded)
  for (let i = 1; i <= tries && slow.length > 0; i++) {
    const ratios = ratiosOf(await measure())
    const slowNow = slowerThan(recorded, ratios)
    slow = slow.filter(name => slowNow.includes(name))
    for (const [name, ratio] of Object.entries(ratios)) {
      say(
        `${name}: ${ratio.toFixed(2)}, recorded ${recorded[name].toFixed(2)}${slowNow.includes(name) ? ': slower' : ''}`
      )
    }
  }
  return slow
}
