import { testWith } from '../go-program.ts'
import { TRAEFIK } from './build.ts'

const FILES = ['gate', 'gate-faults', 'gate-own', 'certificates'].map(name => `test/system/${name}.test.ts`)

await testWith([TRAEFIK], ['--disable-coverage', '--timeout=600', '--grep=traefik', ...FILES])
