/** The address of a Sluice server, and a key of SLUICE_API_KEYS. */
export class SluiceApi {
  name = 'sluiceApi';
  displayName = 'Sluice API';
  properties = [
    { displayName: 'URL', name: 'url', type: 'string', default: 'http://127.0.0.1:3000', required: true },
    {
      displayName: 'Key',
      name: 'key',
      type: 'string',
      typeOptions: { password: true },
      default: '',
      description: 'A key with the roles ingest and query; any text if the server has no keys',
    },
  ];
  authenticate = {
    type: 'generic',
    properties: { headers: { Authorization: '=Bearer {{$credentials.key}}' } },
  };
  test = { request: { baseURL: '={{ $credentials.url }}', url: '/rag/documents', qs: { limit: 1 } } };
}
