import { TOOLS } from '../../cli/tools.ts'
import { METRICS } from '../../lib/report/metrics/catalog.ts'
import { REFUSALS } from '../../lib/refusal.ts'
import { settingNames, settingSpec } from '../../lib/settings/specs.ts'

/**
 * The names that docs/reference/versions.md promises, a line each. The types of the package are in
 * test/packages/api.txt.
 * @throws Error if a promised name is gone: whoever may break the promise deletes its line first
 */
export function makePromises (promised: string): string {
  const lines = [
    ...settingNames.map(name => {
      const { variable, from } = settingSpec(name)
      return ['setting', ...from === 'file' ? [] : [variable], ...from === 'environment' ? [] : [name]].join(' ')
    }),
    ...Object.entries(REFUSALS).map(([reason, { status, error }]) =>
      ['reason', reason, status, ...error ? [error] : []].join(' ')
    ),
    ...METRICS.map(({ name, type }) => `metric ${name} ${type}`),
    ...Object.keys(TOOLS).map(name => `command ${name}`)
  ]
  const gone = promised.split('\n').filter(line => line !== '' && !lines.includes(line))
  if (gone.length > 0) {
    throw new Error(`Only a major may change what is promised (docs/reference/versions.md): ${gone.join(', ')}`)
  }
  return `${lines.join('\n')}\n`
}
