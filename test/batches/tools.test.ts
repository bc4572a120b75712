import { runTogether } from '../helpers/together.ts'

await runTogether('tools')
