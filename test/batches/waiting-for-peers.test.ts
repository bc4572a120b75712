// First: it counts only in what is loaded after it.
import '../helpers/verifications.ts'
import { runTogether } from '../helpers/together.ts'

await runTogether('waiting-for-peers')
