// For import. It is the same module as for require(), so no class is there twice.
import door from './dist/plugin.cjs'

export default door.default
export const { REFUSALS, Refusal, SettingsError } = door
