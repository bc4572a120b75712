// First: it counts only in what is loaded after it.
import '../helpers/verifications.ts'
import { useJwtTools } from '../helpers/jwt-tools.ts'
import { runTogether } from '../helpers/together.ts'

useJwtTools('node:crypto')
await runTogether('tokens')
