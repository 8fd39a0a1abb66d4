-- Orthanc writes each stored instance into the folder that histeqd watches. In Orthanc's configuration: "LuaScripts": ["/etc/orthanc/inbox.lua"].
-- The environment says where: HISTEQD_INBOX. A file has another name until it is whole.

local inbox = os.getenv('HISTEQD_INBOX') or '/var/spool/histeqd/inbox'

function OnStoredInstance(instance, tags, metadata)
    -- What comes back from histeqd is not to be enhanced once more.
    if string.find(tags['DerivationDescription'] or '', 'histeqd', 1, true) then
        return
    end
    local whole = inbox .. '/' .. instance .. '.dcm'
    local part = inbox .. '/.' .. instance .. '.part'
    local file, why = io.open(part, 'wb')
    if file == nil then
        print('histeqd: ' .. why)
        return
    end
    file:write(RestApiGet('/instances/' .. instance .. '/file'))
    file:close()
    os.rename(part, whole)
end
