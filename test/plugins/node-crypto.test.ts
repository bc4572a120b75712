import t from 'tap'
import { useJwtTools } from '../helpers/jwt-tools.ts'

/** The tests of tokens and keys once more, with apps that read keys and verify signatures as the npm package does. */
t.test('From here on, apps use node:crypto.', async () => useJwtTools('node:crypto'))
for (const name of ['tokens', 'algorithms', 'keys']) {
  await t.test(`${name}, by node:crypto`, t => t.resolves(import(`./${name}.test.ts?by=node-crypto`), 'the file is loaded; its tests follow'))
}
t.test('Then the packages are back.', async () => useJwtTools('packages'))
