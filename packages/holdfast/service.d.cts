// See index.d.cts.
import type * as door from './dist/packages/holdfast/service.js' with { 'resolution-mode': 'import' }

declare const service: typeof door.default
export default service
