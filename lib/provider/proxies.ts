import { BlockList, isIP } from 'node:net'

/** The addresses of NO_PROXY, and its entries that name hosts. */
export interface ProxyBypass {
  /** Whether the host of a URL is an address that is called without a proxy. */
  readonly includes: (url: URL) => boolean
  /** The other entries, for undici: it knows hosts, their subdomains and `*`, and no addresses of IPv6 and no CIDRs. */
  readonly hosts: string
  /** Entries that cannot fit any host: URLs, and CIDRs that are none. */
  readonly unusable: readonly string[]
}

/**
 * Reads NO_PROXY as curl and Go do: beside hosts it may name addresses (`::1`, `[::1]:8443`) and CIDRs (`10.0.0.0/8`).
 * They hold for URLs whose host is an address; no name is resolved for that.
 */
export function parseNoProxy (noProxy: string): ProxyBypass {
  const blocks: Array<{ readonly list: BlockList, readonly port: string | undefined }> = []
  const hosts: string[] = []
  const unusable: string[] = []
  for (const entry of noProxy.split(/[\s,]+/).filter(Boolean)) {
    const [, bracketed, port] = /^\[([^\]]*)\](?::(\d+))?$/.exec(entry) ?? []
    const [address = '', bits, ...rest] = (bracketed ?? entry).split('/')
    const version = isIP(address)
    const list = new BlockList()
    if (bits === undefined && version !== 6) hosts.push(entry)
    else if (
      version === 0 || rest.length > 0 || !/^\d{1,3}$/.test(bits ?? '0') || Number(bits) > (version === 6 ? 128 : 32)
    ) unusable.push(entry)
    else {
      list.addSubnet(address, Number(bits ?? 128), version === 6 ? 'ipv6' : 'ipv4')
      blocks.push({ list, port })
    }
  }

  function includes (url: URL): boolean {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const version = isIP(host)
    const port = url.port || (url.protocol === 'https:' ? '443' : '80')
    return version !== 0 &&
      blocks.some(block => (block.port ?? port) === port && block.list.check(host, version === 6 ? 'ipv6' : 'ipv4'))
  }

  return { includes, hosts: hosts.join(), unusable }
}

/**
 * If a proxy is not given, undici reads the environment. This code must not, so it passes an empty text, which means no
 * proxy.
 */
export function proxyUrl (text: string | undefined): string {
  if (text === undefined || text === '') return ''
  const url = text.includes('://') ? text : `http://${text}`
  if (!URL.canParse(url) || !/^https?:\/\//i.test(url)) {
    throw new TypeError('A proxy must be given as an http or https URL.')
  }
  return url
}
