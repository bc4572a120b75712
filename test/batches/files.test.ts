import { useReadyKeys } from '../helpers/rsa-keys.ts'
import { runTogether } from '../helpers/together.ts'

useReadyKeys()
await runTogether('files')
