import { BlockList, isIP } from 'node:net'

/**
 * Reads NO_PROXY as curl and Go do: hosts with their subdomains, addresses, CIDRs (`10.0.0.0/8`), and `*` for all. All
 * but CIDRs may have a port (`[::1]:8443`). Addresses hold for URLs whose host is an address; no name is resolved for
 * that. Any other entry fits no host.
 * @returns whether a URL is called without a proxy
 */
export function parseNoProxy (noProxy: string): (url: URL) => boolean {
  const rules: Array<{ readonly fits: (host: string) => boolean, readonly port: string | undefined }> = []
  for (const entry of noProxy.split(/[\s,]+/).filter(Boolean)) {
    const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? []
    const [address = '', bits, ...rest] = (bracketed ?? plain ?? entry).split('/')
    const maxBits = { 4: 32, 6: 128 }[isIP(address)]
    if (maxBits === undefined) {
      if (bits === undefined) rules.push({ fits: nameRule(address), port })
    } else if (rest.length === 0 && /^\d{1,3}$/.test(bits ?? '0') && Number(bits ?? 0) <= maxBits) {
      rules.push({ fits: subnetRule(address, Number(bits ?? maxBits)), port })
    }
  }

  return url => {
    const host = url.hostname.replace(/[[\]]/g, '')
    const port = url.port || (url.protocol === 'https:' ? '443' : '80')
    return rules.some(rule => (rule.port ?? port) === port && rule.fits(host))
  }
}

function nameRule (entry: string): (host: string) => boolean {
  const name = entry.toLowerCase().replace(/^\*?\./, '')
  return host => name === '*' || host === name || host.endsWith(`.${name}`)
}

function subnetRule (address: string, bits: number): (host: string) => boolean {
  const subnet = new BlockList()
  subnet.addSubnet(address, bits, familyOf(address))
  return host => isIP(host) !== 0 && subnet.check(host, familyOf(host))
}

function familyOf (address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4'
}

/** The URL of a proxy. Undefined for an empty text, which means no proxy. @throws TypeError */
export function proxyUrl (text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  const url = text.includes('://') ? text : `http://${text}`
  if (!URL.canParse(url) || !/^https?:\/\//i.test(url)) {
    throw new TypeError('A proxy must be given as an http or https URL.')
  }
  return url
}
