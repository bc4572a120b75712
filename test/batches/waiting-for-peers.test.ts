import { runTogether } from '../helpers/together.ts'

await runTogether('waiting-for-peers')
